// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// addNode adds a node to a cluster until the test ends, with a zone unless that is empty.
func addNode(t *testing.T, in *fleet.Cluster, name, zone string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if zone != "" {
		node.Labels = map[string]string{corev1.LabelTopologyZone: zone}
	}
	nodes := in.Kubernetes.CoreV1().Nodes()
	expect.Must(nodes.Create(t.Context(), node, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		if err := nodes.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// preferOwn exports web from both clusters, which prefers the cluster of the client.
func preferOwn(t *testing.T, ns string) {
	t.Helper()
	for i, cluster := range clusters.Clusters {
		expect.NoError(t, cluster.Namespace(t.Context(), ns))
		expect.Must(cluster.Service(t.Context(), ns, "web"))(t)
		expect.Must(cluster.EndpointSlice(t.Context(), ns, "web", []string{fmt.Sprintf("10.%d.0.1", i+1)}))(t)
		expect.Must(cluster.Export(t.Context(), ns, "web", func(e *multiclusterxv1beta1.ServiceExport) {
			e.Annotations = map[string]string{multicluster.ClusterPreferenceAnnotation: "cluster"}
		}))(t)
	}
}

// setReady changes whether the endpoint that east exports is ready.
func setReady(t *testing.T, ns string, ready bool) {
	t.Helper()
	expect.Must(east().EndpointSlice(t.Context(), ns, "web", []string{"10.1.0.1"}, func(slice *discoveryv1.EndpointSlice) {
		slice.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: ptr.To(ready), Serving: ptr.To(ready), Terminating: ptr.To(false)}
	}))(t)
}

// use describes how kube-proxy uses the endpoints of each cluster.
func use(slices []discoveryv1.EndpointSlice) map[string]string {
	found := map[string]string{}
	for _, slice := range slices {
		var parts []string
		if _, detached := slice.Labels[corev1.IsHeadlessService]; detached {
			parts = append(parts, "detached")
		}
		for _, endpoint := range slice.Endpoints {
			if !ptr.Deref(endpoint.Conditions.Ready, true) {
				parts = append(parts, "unready")
			}
			if endpoint.Hints != nil {
				for _, zone := range endpoint.Hints.ForZones {
					parts = append(parts, zone.Name)
				}
			}
		}
		found[slice.Labels[multicluster.SourceClusterLabel]] = strings.Join(parts, " ")
	}
	return found
}

// awaitUse waits until the endpoints of all clusters are used in this way, and the import says which
// tier is active.
func awaitUse(t *testing.T, in *fleet.Cluster, ns, tier string, want map[string]string) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("use of endpoints in %s", in.ID), func(ctx context.Context) error {
		slices, err := importedSlices(ctx, in, ns, "web")
		if err != nil {
			return err
		}
		if got := use(slices); !maps.Equal(got, want) {
			return fmt.Errorf("endpoints are used as %q, want %q", got, want)
		}
		return nil
	})
	in.AwaitImportThat(t, ns, "web", func(found *multiclusterxv1beta1.ServiceImport) error {
		if got := found.Annotations[multicluster.ActiveTierAnnotation]; got != tier {
			return fmt.Errorf("active tier is %q because %q, want %q", got, found.Annotations[multicluster.ActiveTierReasonAnnotation], tier)
		}
		return nil
	})
}

const nowhere = "none.clusterset.mcs-apiserver.io"

// R604, R605, R612: by hints, the first write is that of the endpoint that failed, which suffices for
// kube-proxy. Other writes follow, each of them once.
func TestFallbackByHintsTakesOneWrite(t *testing.T) {
	const ns = "hinted"
	addNode(t, east(), "node-1", "a")
	addNode(t, east(), "node-2", "b")
	preferOwn(t, ns)
	awaitUse(t, east(), ns, "cluster", map[string]string{"east": "a b", "west": nowhere})
	awaitQuiet(t, ns)
	slicesByCluster := map[string]string{}
	for _, slice := range expect.Must(importedSlices(t.Context(), east(), ns, "web"))(t) {
		slicesByCluster[slice.Labels[multicluster.SourceClusterLabel]] = "update endpointslices " + ns + "/" + slice.Name
	}
	derived := "update services " + ns + "/" + multicluster.DerivedServiceName(ns, "web")
	written := count(t, east(), ns)
	setReady(t, ns, false)
	awaitUse(t, east(), ns, "all", map[string]string{"east": "unready", "west": ""})
	written.expect(t, slicesByCluster["east"], slicesByCluster["west"], derived)
	versions := map[string]string{} // the host logs writes as they end, not in their order
	for _, slice := range expect.Must(importedSlices(t.Context(), east(), ns, "web"))(t) {
		versions[slice.Labels[multicluster.SourceClusterLabel]] = slice.ResourceVersion
	}
	if order := expect.Must(resourceversion.CompareResourceVersion(versions["east"], versions["west"]))(t); order >= 0 {
		t.Errorf("the endpoint that failed was written as %s, after the hints of the other cluster, %s", versions["east"], versions["west"])
	}
	setReady(t, ns, true)
	awaitUse(t, east(), ns, "cluster", map[string]string{"east": "a b", "west": nowhere})
	addNode(t, east(), "node-3", "c")
	awaitUse(t, east(), ns, "cluster", map[string]string{"east": "a b c", "west": nowhere})
}

// R607, R610: without zones, slices are detached. They are attached before the endpoint that failed
// is written.
func TestFallbackByDetachingAttachesFirst(t *testing.T) {
	const ns = "detached"
	addNode(t, east(), "node-1", "a")
	addNode(t, east(), "node-2", "")
	preferOwn(t, ns)
	awaitUse(t, east(), ns, "cluster", map[string]string{"east": "", "west": "detached"})
	awaitQuiet(t, ns)
	var order []string
	watch := expect.Must(east().Kubernetes.DiscoveryV1().EndpointSlices(ns).Watch(t.Context(), metav1.ListOptions{LabelSelector: multicluster.ServiceNameLabel + "=web"}))(t)
	defer watch.Stop()
	for range 2 {
		<-watch.ResultChan() // what exists
	}
	setReady(t, ns, false)
	for range 2 {
		slice, ok := (<-watch.ResultChan()).Object.(*discoveryv1.EndpointSlice)
		if !ok {
			t.Fatal("the watch ended")
		}
		order = append(order, slice.Labels[multicluster.SourceClusterLabel]+": "+use([]discoveryv1.EndpointSlice{*slice})[slice.Labels[multicluster.SourceClusterLabel]])
	}
	if want := []string{"west: ", "east: unready"}; !slices.Equal(order, want) {
		t.Errorf("slices changed as %q, want %q", order, want)
	}
	awaitUse(t, east(), ns, "all", map[string]string{"east": "unready", "west": ""})
	setReady(t, ns, true)
	awaitUse(t, east(), ns, "cluster", map[string]string{"east": "", "west": "detached"})
}

// warnings are those of a client.
type warnings struct{ texts []string }

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { w.texts = append(w.texts, text) }

// R609: the writer of an export is warned by the API.
func TestWriterIsWarnedOfAPreferenceWithoutEffect(t *testing.T) {
	const ns = "warned"
	expect.NoError(t, east().Namespace(t.Context(), ns))
	expect.Must(east().Service(t.Context(), ns, "plain"))(t)
	expect.Must(east().Service(t.Context(), ns, "headless", makeHeadless))(t)
	config, handler := rest.CopyConfig(expect.Must(east().Plane.AdminConfig())(t)), &warnings{}
	config.WarningHandler = handler
	client := expect.Must(versioned.NewForConfig(config))(t)
	for name, want := range map[string]string{
		"plain":    `tier "property:region.example.com" of annotation clusterset.mcs-apiserver.io/cluster-preference is skipped by the clients of this cluster`,
		"headless": "annotation clusterset.mcs-apiserver.io/cluster-preference has no effect: the Service is headless",
	} {
		handler.texts = nil
		expect.Must(client.MulticlusterXV1beta1().ServiceExports(ns).Create(t.Context(), &multiclusterxv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{multicluster.ClusterPreferenceAnnotation: "cluster,property:region.example.com"},
		}}, metav1.CreateOptions{}))(t)
		if !slices.ContainsFunc(handler.texts, func(text string) bool { return strings.Contains(text, want) }) {
			t.Errorf("%s: got warnings %q, want %q", name, handler.texts, want)
		}
	}
}
