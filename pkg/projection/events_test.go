// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

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
