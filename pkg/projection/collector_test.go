// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // as in mcs-apiserver

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

// R520: metrics tell how many exports, imports and endpoints there are, and none of those that
// are gone.
func TestExportsAndImportsAreMeasured(t *testing.T) {
	c := newCluster(t)
	c.add(service("web"), exportFor("web"), service("db"), exportFor("db"))
	stop := run(c)
	defer stop()
	measures := func(want map[string]float64) func() bool {
		return func() bool {
			measured := &collector{} // which can be registered once
			measured.projection.Store(c.Projection)
			got := membertest.Gather(t, measured)
			for name, value := range want {
				if found, ok := got["mcs_apiserver_"+name]; ok != (value > 0) || found != value {
					t.Logf("%s is %v, want %v (in %v)", name, found, value, got)
					return false
				}
			}
			return true
		}
	}
	const objects = "virtual_objects serviceimports.multicluster.x-k8s.io"
	eventually(t, "both are counted", measures(map[string]float64{objects: 2, "exported_services a": 2}))
	c.remove(exportFor("db"))
	c.nameChanged(exportFor("db"))
	eventually(t, "one is counted", measures(map[string]float64{objects: 1, "exported_services a": 1}))
}

// R524: a metric tells how much is to be computed.
func TestQueueIsMeasured(t *testing.T) {
	depth := func() (value float64) {
		families, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if family.GetName() == "workqueue_depth" && metric.GetLabel()[0].GetValue() == "projection" {
					value = metric.GetGauge().GetValue()
				}
			}
		}
		return value
	}
	before := depth() // of queues of other tests
	queue := newQueue()
	defer queue.ShutDown()
	queue.Add(key{source: "east"})
	queue.Add(key{source: "west"})
	if got := depth() - before; got != 2 {
		t.Errorf("the depth is %v, want 2", got)
	}
	item, _ := queue.Get()
	defer queue.Done(item)
	if got := depth() - before; got != 1 {
		t.Errorf("the depth is %v after one was taken, want 1", got)
	}
}
