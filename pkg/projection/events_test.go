// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
)

// R221: exports that keep changing are computed about once a second after a few
// changes at once, and after the last change. Exports of the same service by another
// cluster are not delayed.
func TestFlappingExportsAreComputedAboutOncePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		service := types.NamespacedName{Namespace: "ns", Name: "web"}
		drain := func() (computed int) {
			synctest.Wait()
			for c.queue.Len() > 0 {
				item, _ := c.queue.Get()
				c.queue.Done(item)
				computed++
			}
			return computed
		}
		pass := func(duration time.Duration) {
			time.Sleep(duration) // in the bubble
			c.clock.SetTime(time.Now())
		}
		drain()
		const seconds = 10
		computed := 0
		for range seconds * 100 {
			pass(10 * time.Millisecond)
			c.exportChanged(exports.Ref{Cluster: "hostile", Service: service})
			computed += drain()
		}
		if computed < seconds || computed > exportBurst+2*seconds {
			t.Errorf("computed %d times in %d seconds", computed, seconds)
		}
		c.exportChanged(exports.Ref{Cluster: "honest", Service: service})
		if drain() != 1 {
			t.Error("the export of another cluster was delayed")
		}
		c.exportChanged(exports.Ref{Cluster: "hostile", Service: service})
		pass(exportInterval)
		if drain() == 0 {
			t.Error("the last change was not computed")
		}
	})
}

// R220
func TestManyExportsDoNotDelayOtherClusters(t *testing.T) {
	c := newCluster(t)
	for i := range 1000 {
		c.exportChanged(exports.Ref{Cluster: "hostile", Service: types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("flood-%d", i)}})
	}
	c.exportChanged(exports.Ref{Cluster: "honest", Service: types.NamespacedName{Namespace: "ns", Name: "web"}})
	for position := 1; ; position++ {
		item, _ := c.queue.Get()
		c.queue.Done(item)
		if item.source == "honest" {
			if position > 3 {
				t.Errorf("export of another cluster is number %d", position)
			}
			return
		}
	}
}

// R652: updates of imported EndpointSlices, which only mcs-controller makes, change no import.
func TestUpdatesOfImportedSlicesAreNotComputed(t *testing.T) {
	c := newCluster(t)
	c.queued()
	slice := func(change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "derived-x-1", Labels: map[string]string{
			discoveryv1.LabelServiceName: "derived-x", discoveryv1.LabelManagedBy: multicluster.ManagedBy,
			multicluster.ServiceNameLabel: "web", multicluster.SourceClusterLabel: "b",
		}}}
		change(slice)
		return slice
	}
	unchanged := slice(func(*discoveryv1.EndpointSlice) {})
	updated := slice(func(slice *discoveryv1.EndpointSlice) {
		slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}
	})
	renamed := slice(func(slice *discoveryv1.EndpointSlice) { slice.Labels[multicluster.ServiceNameLabel] = "api" })
	foreign := slice(func(slice *discoveryv1.EndpointSlice) { slice.Labels[discoveryv1.LabelManagedBy] = "somebody" })
	handler := c.onSliceChange()
	for name, test := range map[string]struct {
		event func()
		want  string
	}{
		"added":             {func() { handler.OnAdd(unchanged, false) }, "ns/derived-x,ns/web"},
		"updated":           {func() { handler.OnUpdate(unchanged, updated) }, ""},
		"of another import": {func() { handler.OnUpdate(unchanged, renamed) }, "ns/api,ns/derived-x,ns/web"},
		"taken over":        {func() { handler.OnUpdate(unchanged, foreign) }, "ns/derived-x,ns/web"},
		"of somebody else":  {func() { handler.OnUpdate(foreign, foreign) }, "ns/derived-x,ns/web"},
		"deleted":           {func() { handler.OnDelete(unchanged) }, "ns/derived-x,ns/web"},
	} {
		t.Run(name, func(t *testing.T) {
			test.event()
			if got := c.queued(); got != test.want {
				t.Errorf("enqueued %q, want %q", got, test.want)
			}
		})
	}
}
