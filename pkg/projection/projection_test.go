// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importedslice"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

func (c *cluster) imported(name string) *multicluster.ServiceImport {
	if shown, ok := c.stores.serviceImports.Get("ns", name); ok {
		return shown.(*multicluster.ServiceImport)
	}
	return nil
}

// exportedObjects returns the names of the objects in the stores of exports.
func (c *cluster) exportedObjects() string {
	var names []string
	for _, object := range c.stores.exportedServices.List() {
		names = append(names, object.(*clusterset.ExportedService).Name)
	}
	for _, object := range c.stores.exportedEndpointSlices.List() {
		slice := object.(*clusterset.ExportedEndpointSlice)
		names = append(names, slice.Name+"("+slice.Spec.Service+")")
	}
	return strings.Join(names, ",")
}

func (c *cluster) sync(names ...string) {
	c.t.Helper()
	for _, name := range names {
		must(c.t, c.syncService(types.NamespacedName{Namespace: "ns", Name: name}))
	}
}

// R9, R24, R27: exported Services are published and imported, and nothing else.
func TestExportIsPublishedAndImported(t *testing.T) {
	c := newCluster(t)
	c.add(service("web"), service("private"), slice("web-1", "web"), slice("private-1", "private"))
	c.sync("web", "private")
	if c.exportedObjects() != "" || c.imported("web") != nil {
		t.Fatalf("without an export %q is published", c.exportedObjects())
	}
	c.add(exportFor("web"))
	c.sync("web", "private")
	if got := c.exportedObjects(); got != "web.a,web-1.a(web)" {
		t.Errorf("published objects are %q", got)
	}
	if got := c.imported("web"); got == nil || got.UID == "" || !cmp.Equal(got.Status.Clusters, []multicluster.ClusterStatus{{Cluster: "a"}}) {
		t.Errorf("the import is %+v", got)
	}
	if got := c.Clusters("ns", "web"); !cmp.Equal(got, []string{"a"}) {
		t.Errorf("exporting clusters are %v", got)
	}
	c.runLives()
	c.remove(exportFor("web"))
	c.sync("web")
	c.awaitRecord()
	c.sync("web")
	if c.exportedObjects() != "" || c.imported("web") != nil {
		t.Error("objects of a deleted export remain")
	}
}

// R25, R26: an import exists only while its namespace does. What is published to
// other clusters does not depend on the namespace.
func TestImportNeedsItsNamespace(t *testing.T) {
	c := newCluster(t)
	c.add(service("web"), exportFor("web"))
	c.sync("web")
	first := c.imported("web")
	terminating := namespace("ns")
	terminating.Status.Phase = corev1.NamespaceTerminating
	c.add(terminating)
	c.sync("web")
	if c.imported("web") != nil || c.exportedObjects() != "web.a" {
		t.Errorf("in a terminating namespace: import %v, published %q", c.imported("web"), c.exportedObjects())
	}
	c.remove(namespace("ns"))
	c.sync("web")
	if c.imported("web") != nil {
		t.Error("the import exists without its namespace")
	}
	next := namespace("ns")
	next.UID = "uid-of-the-next"
	c.add(next)
	c.namespaceChanged(next)
	if got := c.queued(); got != "ns/web" {
		t.Errorf("queued Services are %q", got)
	}
	c.sync("web")
	if got := c.imported("web"); got == nil || got.UID == first.UID {
		t.Errorf("the recreated import is %+v", got)
	}
}

// R21, R110: without a ClusterSet nothing is exported or imported.
func TestNothingIsSharedOutsideAClusterSet(t *testing.T) {
	c := newCluster(t)
	c.add(service("web"), exportFor("web"))
	c.sync("web")
	c.remove(claim("clusterset.k8s.io", "set"))
	must(t, c.syncClaims(t.Context()))
	if got := c.queued(); got != "ns/web" {
		t.Errorf("queued Services are %q", got)
	}
	c.sync("web")
	if c.exportedObjects() != "" || c.imported("web") != nil {
		t.Errorf("%q is published", c.exportedObjects())
	}
	if got := c.members.Entry("a").Status.Exports; got != 0 {
		t.Errorf("the entry of this cluster counts %d exports", got)
	}
}

// Other clusters accept an empty list only if the counts agree with it.
func TestCountsIncludeEveryExport(t *testing.T) {
	c := newCluster(t)
	const many = 50
	var group sync.WaitGroup
	for i := range many {
		name := fmt.Sprintf("web-%d", i)
		c.add(service(name), exportFor(name), slice(name+"-1", name))
	}
	for i := range many {
		group.Go(func() { c.sync(fmt.Sprintf("web-%d", i)) })
	}
	group.Wait()
	if got := c.members.Entry("a").Status; got.Exports != many || got.Endpoints != 2*many {
		t.Errorf("the entry of this cluster counts %d exports and %d endpoints, want %d and %d", got.Exports, got.Endpoints, many, 2*many)
	}
}

// An EndpointSlice can move to another Service. It must stay published, whichever
// of the two Services is processed first.
func TestEndpointsThatMoveToAnotherServiceAreNotLost(t *testing.T) {
	for _, order := range [][]string{{"web", "api"}, {"api", "web"}} {
		c := newCluster(t)
		c.add(service("web"), exportFor("web"), service("api"), exportFor("api"), slice("s", "web"))
		c.sync("web", "api")
		c.add(slice("s", "api"))
		c.sync(order...)
		if got := c.exportedObjects(); got != "api.a,web.a,s.a(api)" {
			t.Errorf("processed in the order %v, published objects are %q", order, got)
		}
	}
}

// The entry of this cluster must not report that it exports nothing before
// everything has been computed.
func TestOwnEntryIsCompleteWhenSynced(t *testing.T) {
	c := newCluster(t)
	c.add(service("web"), exportFor("web"), slice("web-1", "web"))
	var shown clusterset.MemberStatus
	ctx, cancel := context.WithCancel(t.Context())
	c.inform(ctx)
	c.Run(ctx, func() {
		if own, ok := c.stores.members.Get("", "a"); ok {
			shown = own.(*clusterset.Member).Status
		}
		cancel()
	})
	<-c.Done()
	if shown.Exports != 1 || shown.Endpoints != 2 || !shown.Synced {
		t.Errorf("when synced, the entry of this cluster has status %+v", shown)
	}
}

func TestImportReflectsDerivedServiceAndSlices(t *testing.T) {
	c := newCluster(t)
	derived := service(multicluster.DerivedServiceName("ns", "web"))
	derived.Labels = map[string]string{multicluster.ServiceNameLabel: "web", multicluster.ManagedByLabel: multicluster.ManagedBy}
	derived.Spec.ClusterIP, derived.Spec.ClusterIPs = "10.0.0.7", []string{"10.0.0.7"}
	imported := slice("imported", derived.Name)
	imported.Labels[multicluster.ServiceNameLabel] = "web"
	imported.Labels[discoveryv1.LabelManagedBy] = multicluster.ManagedBy
	c.add(service("web"), exportFor("web"), derived, imported)
	c.sync("web")
	got := c.imported("web")
	if got.Status.EndpointSliceObjects != multicluster.EndpointSliceObjectsPresent || !cmp.Equal(got.Spec.IPs, []string{"10.0.0.7"}) {
		t.Errorf("the import is %+v", got)
	}
	for name, change := range map[string]func(*corev1.Service){
		"being deleted":                 func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
		"not managed by mcs-controller": func(s *corev1.Service) { s.Labels = nil },
		"managed by another implementation": func(s *corev1.Service) {
			s.Labels = map[string]string{multicluster.ServiceNameLabel: "web"}
		},
	} {
		other := derived.DeepCopy()
		change(other)
		c.add(other)
		c.sync("web")
		if ips := c.imported("web").Spec.IPs; len(ips) != 0 {
			t.Errorf("with a derived Service that is %s the import has IPs %v", name, ips)
		}
	}
}

// importedSlice returns an imported EndpointSlice of web.
func importedSlice(name, cluster string) *discoveryv1.EndpointSlice {
	made := slice(name, "derived-web")
	made.Labels[multicluster.ServiceNameLabel], made.Labels[multicluster.SourceClusterLabel] = "web", cluster
	made.Labels[discoveryv1.LabelManagedBy] = multicluster.ManagedBy
	made.Annotations = map[string]string{multicluster.SourceSliceAnnotation: importedslice.Source{Name: name + "." + cluster}.Annotation()}
	return made
}

// R166: endpoints of a member that cannot be read since a restart are restored when another
// replica imports them.
func TestEndpointsAreRestoredWhenTheyAreImported(t *testing.T) {
	server := membertest.NewServer(t, "b")
	server.Export("web")
	before := newCluster(t)
	before.add(membertest.Secret("b", server.Kubeconfig("token-1"), func(secret *corev1.Secret) { secret.Namespace = "mcs-system" }))
	stop := run(before)
	eventually(t, "the member is recorded", func() bool { return before.remembered.Version() == 2 }) // the contact and the Service
	stop()

	c := newServer(t, before.records, before.remembered)
	c.add(unreachable())
	defer run(c)()
	known := func() int {
		found := c.members.Exports(web)
		if len(found) != 1 {
			t.Fatalf("web is exported by %d clusters", len(found))
		}
		return len(found[0].Slices)
	}
	if got := known(); got != 0 {
		t.Errorf("%d slices are known before any is imported", got)
	}
	_, err := c.kubernetes.DiscoveryV1().EndpointSlices("ns").Create(t.Context(), importedSlice("web-1", "b"), metav1.CreateOptions{})
	must(t, err)
	eventually(t, "the endpoints are known", func() bool { return known() == 1 })
}

// R166: what can be restored of a member's endpoints is what mcs-controller imported.
func TestImportedEndpointsAreRestored(t *testing.T) {
	c := newCluster(t)
	broken := importedSlice("broken", "b")
	broken.Annotations[multicluster.SourceSliceAnnotation] = "{"
	c.add(importedSlice("web-1", "b"), importedSlice("web-2", "c"), broken, slice("web-3", "web"))
	restored := c.importedEndpoints("b", types.NamespacedName{Namespace: "ns", Name: "web"})
	if len(restored) != 1 || restored[0].Name != "web-1.b" || len(restored[0].Spec.Endpoints) != 2 {
		t.Errorf("restored are %v", restored)
	}
}
