// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

// R485, R486: in a namespace that asks for it, the derived Service and the import have slices of
// their own, with the endpoints of all clusters, which follow every change. No reader is without
// the endpoints of any cluster while slices are replaced, in either direction, also if that is
// undone before it ended.
func TestNamespaceWithSeparateSlices(t *testing.T) {
	ns := fleet.CreateNamespace(t, "separate", east(), west())
	east().ExportService(t, ns, "web", []string{"10.9.0.1"})
	west().ExportService(t, ns, "web", []string{"10.8.0.1"})
	both := from{"east": {"10.9.0.1"}, "west": {"10.8.0.1"}}
	awaitEndpoints(t, west(), ns, "web", both)

	endGaps := watchForGaps(t, west(), ns, "east", "west")
	annotateNamespace(t, west(), ns, `"separate"`)
	awaitReaders(t, west(), ns, both, true)
	awaitReaders(t, east(), ns, both, false)
	expect.Must(east().EndpointSlice(t.Context(), ns, "web", []string{"10.9.0.2", "10.9.0.3"}))(t)
	both["east"] = []string{"10.9.0.2", "10.9.0.3"}
	awaitReaders(t, west(), ns, both, true)
	annotateNamespace(t, west(), ns, "null")
	awaitReaders(t, west(), ns, both, false)
	for range 15 {
		annotateNamespace(t, west(), ns, `"separate"`)
		annotateNamespace(t, west(), ns, "null")
	}
	annotateNamespace(t, west(), ns, `"separate"`)
	awaitReaders(t, west(), ns, both, true)
	endGaps()

	unexport(t, east(), ns)
	awaitReaders(t, west(), ns, from{"west": {"10.8.0.1"}}, true)
	unexport(t, west(), ns)
	awaitNothing(t, west(), ns, "web")
	awaitReaders(t, west(), ns, nil, true)
}

// R67, R485: CoreDNS answers reverse queries for endpoints with the names that they have without
// separate slices, if its server block for reverse zones leaves out the slices of imports, as
// docs/gateways.md tells. Otherwise it does not respond at all.
func TestReverseNamesWithSeparateSlices(t *testing.T) {
	ns := fleet.CreateNamespace(t, "reverse", east(), west())
	east().ExportService(t, ns, "web", []string{"10.9.7.1"})
	west().ExportService(t, ns, "web", []string{"10.8.7.1"})
	annotateNamespace(t, west(), ns, `"separate"`)
	awaitReaders(t, west(), ns, from{"east": {"10.9.7.1"}, "west": {"10.8.7.1"}}, true)
	resolver := startReverseDNS(t)
	derived := "." + multicluster.DerivedServiceName(ns, "web") + "." + ns + ".svc.cluster.local."
	for address, want := range map[string][]string{
		"10.9.7.1": {"10-9-7-1" + derived}, "10.8.7.1": {"10-8-7-1" + derived, "10-8-7-1.web." + ns + ".svc.cluster.local."},
	} {
		expect.Eventually(t, "reverse names of "+address, func(ctx context.Context) error {
			found, err := resolver.LookupAddr(ctx, address)
			if slices.Sort(found); err == nil && !slices.Equal(found, want) {
				err = fmt.Errorf("names are %v, want %v", found, want)
			}
			return err
		})
	}
}

// startReverseDNS starts CoreDNS for the zones of a cluster, until the test ends, and returns a
// resolver that asks it.
func startReverseDNS(t *testing.T) *net.Resolver {
	t.Helper()
	file := filepath.Join(t.TempDir(), "Corefile")
	corefile := fmt.Sprintf(`.:5301 {
    bind 127.0.0.1
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %s
        labels !%s
    }
}
`, west().Plane.AdminKubeconfig(), multicluster.ImportOnlyLabel)
	expect.NoError(t, os.WriteFile(file, []byte(corefile), 0o600))
	started, err := process.Start(process.Command{
		Name: "coredns", Path: filepath.Join(west().Plane.Bin, "coredns"), Args: []string{"-conf", file}, Log: filepath.Join(west().Dir, "coredns.log"),
	})
	expect.NoError(t, err)
	t.Cleanup(started.Kill)
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", "127.0.0.1:5301")
	}}
}

func annotateNamespace(t *testing.T, in *fleet.Cluster, ns, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, multicluster.EndpointSlicesAnnotation, value)
	expect.Must(in.Kubernetes.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
}

// awaitReaders waits until readers of the derived Service and of the import find the endpoints,
// in the same or in separate slices.
func awaitReaders(t *testing.T, in *fleet.Cluster, ns string, want from, separate bool) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("slices of web in %s, separate: %t", in.ID, separate), func(ctx context.Context) error {
		ofService, err := importedSlices(ctx, in, ns, "web")
		if err != nil {
			return err
		}
		ofImport, err := in.Kubernetes.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{LabelSelector: multicluster.ServiceNameLabel + "=web"})
		if err != nil {
			return err
		}
		for _, found := range [][]discoveryv1.EndpointSlice{ofService, ofImport.Items} {
			if diff := cmp.Diff(want, from(endpoints(found))); diff != "" && len(want)+len(found) > 0 {
				return fmt.Errorf("endpoints, want (-), got (+): %s", diff)
			}
			for _, slice := range found {
				_, isImport := slice.Labels[multicluster.ServiceNameLabel]
				if _, isService := slice.Labels[discoveryv1.LabelServiceName]; isImport == isService == separate {
					return fmt.Errorf("slice %s has labels %v", slice.Name, slice.Labels)
				}
			}
		}
		return nil
	})
}

// watchForGaps watches the slices of an import. The function that it returns ends that, and reports
// every state in which a reader found no endpoints of one of the clusters.
func watchForGaps(t *testing.T, in *fleet.Cluster, ns string, clusters ...string) func() {
	t.Helper()
	client := in.Kubernetes.DiscoveryV1().EndpointSlices(ns)
	managed := metav1.ListOptions{LabelSelector: discoveryv1.LabelManagedBy + "=" + multicluster.ManagedBy}
	list := expect.Must(client.List(t.Context(), managed))(t)
	state := map[string]discoveryv1.EndpointSlice{}
	for _, slice := range list.Items {
		state[slice.Name] = slice
	}
	managed.ResourceVersion = list.ResourceVersion
	events := expect.Must(client.Watch(t.Context(), managed))(t)
	var watching sync.WaitGroup
	var stopped atomic.Bool
	watching.Go(func() {
		count := 0
		for event := range events.ResultChan() {
			slice, ok := event.Object.(*discoveryv1.EndpointSlice)
			if !ok && !stopped.Load() {
				t.Errorf("watch ended: %v", event.Object)
			}
			if !ok {
				return
			}
			count++
			if state[slice.Name] = *slice; event.Type == watch.Deleted {
				delete(state, slice.Name)
			}
			for _, label := range []string{discoveryv1.LabelServiceName, multicluster.ServiceNameLabel} {
				var found []discoveryv1.EndpointSlice
				for _, slice := range state {
					if slice.Labels[label] != "" {
						found = append(found, slice)
					}
				}
				for _, cluster := range clusters {
					if len(endpoints(found)[cluster]) == 0 {
						t.Errorf("after %s of %s, no slice with label %s has endpoints of %s", event.Type, slice.Name, label, cluster)
					}
				}
			}
		}
		t.Logf("%d events of slices were seen", count)
	})
	return func() {
		stopped.Store(true)
		events.Stop()
		watching.Wait()
	}
}
