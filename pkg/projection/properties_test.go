// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

// R220, R628: what is computed because the properties of a member change is paced as what is computed
// because its exports do, and delays no other member.
func TestChangesOfPropertiesArePaced(t *testing.T) {
	const services = 20
	c := newCluster(t)
	for i := range services {
		name := fmt.Sprintf("by-property-%d", i)
		c.add(service(name), exportTo(name, "region.example.com=eu"))
	}
	c.add(service("by-id"), exportTo("by-id", "b"), service("for-all"), exportFor("for-all"))
	c.queued()
	computed := 0
	for range 3 * exportBurst { // the clock stands still
		c.propertiesChanged("b")
		item, _ := c.queue.Get()
		if item != (key{propertiesKey, types.NamespacedName{Name: "b"}, "b"}) {
			t.Fatalf("got %s of source %q", item, item.source)
		}
		must(t, c.process(t.Context(), item))
		c.queue.Done(item)
		for c.queue.Len() > 0 {
			item, _ := c.queue.Get()
			c.queue.Done(item)
			if computed++; item.source != "b" || item.name.Name == "by-id" || item.name.Name == "for-all" {
				t.Fatalf("%s of source %q is computed", item, item.source)
			}
		}
	}
	if computed != services*exportBurst {
		t.Errorf("%d computations at one time, want %d", computed, services*exportBurst)
	}
	must(t, c.syncProperties("hostile"))
	c.exportChanged(exports.Ref{Cluster: "honest", Service: types.NamespacedName{Namespace: "ns", Name: "web"}})
	for position := 1; ; position++ {
		item, _ := c.queue.Get()
		c.queue.Done(item)
		if item.source == "honest" {
			if position > 2 {
				t.Errorf("export of another cluster is number %d", position)
			}
			return
		}
	}
}

// R628, R629: if the properties of a member change, what it exports is computed again in namespaces
// that import by property, and nothing else.
func TestImportsByPropertyOfOneMemberAreComputed(t *testing.T) {
	c := newCluster(t)
	by := namespace("by-property")
	by.Annotations = map[string]string{clusterset.ImportFromAnnotation: "region.example.com=eu"}
	other := namespace("by-id")
	other.Annotations = map[string]string{clusterset.ImportFromAnnotation: "b,d"}
	c.add(by, other)
	for _, id := range []string{"b", "d"} {
		server := membertest.NewServer(t, id)
		for _, in := range []string{"ns", "by-property", "by-id"} {
			server.Export("web-"+id+"-"+in, func(s *clustersetv1alpha1.ExportedService) { s.Namespace = in })
		}
		c.add(membertest.Secret(id, server.Kubeconfig("token-1"), func(secret *corev1.Secret) { secret.Namespace = "mcs-system" }))
	}
	stop := run(c)
	membertest.Eventually(t, "all are known", func() bool { return len(c.members.Services()) == 6 })
	stop()
	for _, test := range []struct{ member, want string }{{"b", "by-property/web-b-by-property"}, {"d", "by-property/web-d-by-property"}, {"unknown", ""}} {
		c.queue = newQueue()
		must(t, c.syncProperties(test.member))
		if got := c.queued(); got != test.want {
			t.Errorf("%s: %q is computed, want %q", test.member, got, test.want)
		}
		c.queue.ShutDown()
	}
}
