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
)

func (c *cluster) imported(name string) *multicluster.ServiceImport {
	if shown, ok := c.config.Stores.ServiceImports.Get("ns", name); ok {
		return shown.(*multicluster.ServiceImport)
	}
	return nil
}

// published are the names in a store.
func (c *cluster) published() string {
	var names []string
	for _, object := range c.config.Stores.ExportedServices.List() {
		names = append(names, object.(*clusterset.ExportedService).Name)
	}
	for _, object := range c.config.Stores.ExportedEndpointSlices.List() {
		slice := object.(*clusterset.ExportedEndpointSlice)
		names = append(names, slice.Name+"("+slice.Spec.Service+")")
	}
	return strings.Join(names, ",")
}

func (c *cluster) sync(names ...string) {
	c.t.Helper()
	for _, name := range names {
		must(c.t, c.syncService(c.t.Context(), types.NamespacedName{Namespace: "ns", Name: name}))
	}
}

// R9, R24, R27: what is exported is shown and imported, and nothing else.
func TestExportIsShownAndImported(t *testing.T) {
	c := newCluster(t)
	c.add(service("web"), service("private"), slice("web-1", "web"), slice("private-1", "private"))
	c.sync("web", "private")
	if c.published() != "" || c.imported("web") != nil {
		t.Fatalf("without an export %q is shown", c.published())
	}
	c.add(exportFor("web"))
	c.sync("web", "private")
	if got := c.published(); got != "web.a,web-1.a(web)" {
		t.Errorf("shown are %q", got)
	}
	if got := c.imported("web"); got == nil || got.UID == "" || !cmp.Equal(got.Status.Clusters, []multicluster.ClusterStatus{{Cluster: "a"}}) {
		t.Errorf("the import is %+v", got)
	}
	if got := c.Clusters("ns", "web"); !cmp.Equal(got, []string{"a"}) {
		t.Errorf("exported by %v", got)
	}
	c.remove(exportFor("web"))
	c.sync("web")
	if c.published() != "" || c.imported("web") != nil || len(c.config.Births.all()) != 0 {
		t.Error("something is left of an export that is gone")
	}
}

// R25, R26: an import comes and goes with its namespace; what is shown to the
// other clusters does not depend on it.
func TestImportNeedsItsNamespace(t *testing.T) {
	c := newCluster(t)
	c.add(service("web"), exportFor("web"))
	c.sync("web")
	first := c.imported("web")
	terminating := namespace("ns")
	terminating.Status.Phase = corev1.NamespaceTerminating
	c.add(terminating)
	c.sync("web")
	if c.imported("web") != nil || c.published() != "web.a" {
		t.Errorf("in a namespace that is being deleted: %v, %q", c.imported("web"), c.published())
	}
	c.remove(namespace("ns"))
	c.sync("web")
	if c.imported("web") != nil {
		t.Error("there is an import without its namespace")
	}
	c.add(namespace("ns"))
	c.namespaceChanged(namespace("ns"))
	if got := c.queued(); got != "ns/web" {
		t.Errorf("computed anew is %q", got)
	}
	c.sync("web")
	if got := c.imported("web"); got == nil || got.UID == first.UID {
		t.Errorf("the next life is %+v", got)
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
		t.Errorf("computed anew is %q", got)
	}
	c.sync("web")
	if c.published() != "" || c.imported("web") != nil {
		t.Errorf("%q is shown", c.published())
	}
	if got := c.members.Entry("a").Status.Exports; got != 0 {
		t.Errorf("%d exports are counted", got)
	}
}

// The others believe that nothing is exported only if the count says so.
func TestCountsAreThoseOfTheLastComputation(t *testing.T) {
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
		t.Errorf("counted are %d exports and %d endpoints, want %d and %d", got.Exports, got.Endpoints, many, 2*many)
	}
}

// An EndpointSlice can be given to another Service. Whichever of the two is
// computed first, it must not be lost.
func TestEndpointsThatMoveToAnotherServiceAreNotLost(t *testing.T) {
	for _, order := range [][]string{{"web", "api"}, {"api", "web"}} {
		c := newCluster(t)
		c.add(service("web"), exportFor("web"), service("api"), exportFor("api"), slice("s", "web"))
		c.sync("web", "api")
		c.add(slice("s", "api"))
		c.sync(order...)
		if got := c.published(); got != "api.a,web.a,s.a(api)" {
			t.Errorf("computed in the order %v, shown are %q", order, got)
		}
	}
}

// An import whose record could not be removed has no next life until it is.
func TestDeathOutlastsAnOutageOfEtcd(t *testing.T) {
	c := newCluster(t)
	c.add(service("web"), exportFor("web"))
	c.sync("web")
	first := c.imported("web").UID
	c.remove(exportFor("web"))
	outage, cancel := context.WithCancel(t.Context())
	cancel()
	if c.syncService(outage, web) == nil {
		t.Fatal("a record was removed without an etcd")
	}
	if c.imported("web") != nil {
		t.Error("the import is still there")
	}
	c.add(exportFor("web"))
	c.sync("web")
	if got := c.imported("web").UID; got == first {
		t.Error("the next life has the UID of the last")
	}
}

// An import that died while no server was running has a next life, too; one
// that lives goes on.
func TestRecordsOfTheDeadAreNotInherited(t *testing.T) {
	c := newCluster(t)
	for _, name := range []string{"web", "dead"} {
		c.add(service(name), exportFor(name))
	}
	ran(c)
	uids := map[string]types.UID{"web": c.imported("web").UID, "dead": c.imported("dead").UID}

	next := newCluster(t)
	next.add(service("web"), exportFor("web"), service("dead"))
	stop := run(next)
	eventually(t, "the record is removed", func() bool { return len(next.config.Births.all()) == 1 })
	stop()
	if next.imported("web").UID != uids["web"] || next.imported("dead") != nil {
		t.Error("the living are not who they were, or the dead are not dead")
	}
	last := newCluster(t)
	last.add(service("web"), exportFor("web"), service("dead"), exportFor("dead"))
	ran(last)
	if last.imported("web").UID != uids["web"] || last.imported("dead").UID == uids["dead"] {
		t.Error("a life has the UID of another")
	}
}

// Nobody may read that this cluster exports nothing while it is still counting.
func TestOwnEntryIsRightFromTheStart(t *testing.T) {
	c := newCluster(t)
	c.add(service("web"), exportFor("web"), slice("web-1", "web"))
	var shown clusterset.MemberStatus
	ctx, cancel := context.WithCancel(t.Context())
	c.inform(ctx)
	c.Run(ctx, func() {
		if own, ok := c.config.Stores.Members.Get("", "a"); ok {
			shown = own.(*clusterset.Member).Status
		}
		cancel()
	})
	<-c.Done()
	if shown.Exports != 1 || shown.Endpoints != 2 || !shown.Synced {
		t.Errorf("when everything is computed, the own entry says %+v", shown)
	}
}

func TestDerivedServiceAndSlicesOfTheImportCount(t *testing.T) {
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
		"being deleted": func(s *corev1.Service) { s.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
		"another's":     func(s *corev1.Service) { s.Labels = nil },
		"made by another implementation": func(s *corev1.Service) {
			s.Labels = map[string]string{multicluster.ServiceNameLabel: "web"}
		},
	} {
		other := derived.DeepCopy()
		change(other)
		c.add(other)
		c.sync("web")
		if ips := c.imported("web").Spec.IPs; len(ips) != 0 {
			t.Errorf("a derived Service that is %s gives the import %v", name, ips)
		}
	}
}
