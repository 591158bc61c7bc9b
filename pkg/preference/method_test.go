// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package preference

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
)

// R606, R607
func TestMethodFollowsZones(t *testing.T) {
	all, some, none := Zones{Names: []string{"a"}}, Zones{Names: []string{"a"}, Problem: "node-1 has none"}, Zones{Problem: "nobody has any"}
	for _, test := range []struct {
		method  Method
		zones   Zones
		want    Method
		problem string
	}{
		{Auto, all, Hints, ""},
		{Auto, some, Detach, ""},
		{Auto, none, Detach, ""},
		{Hints, all, Hints, ""},
		{Hints, some, Hints, "cluster preference is not in effect on some nodes: node-1 has none, or change --preference-by of mcs-controller"},
		{Hints, none, "", "cluster preference is not in effect in this cluster: nobody has any, or change --preference-by of mcs-controller"},
		{Detach, all, Detach, ""},
		{Detach, none, Detach, ""},
	} {
		if use, problem := test.method.In(test.zones); use != test.want || problem != test.problem {
			t.Errorf("%s with zones %+v: got %q (%s), want %q (%s)", test.method, test.zones, use, problem, test.want, test.problem)
		}
	}
}

// R612
func TestReasonNamesTheTiersThatAreNotActive(t *testing.T) {
	inRegion := map[string]map[string]string{"east": {"region": "eu"}}
	for _, test := range []struct {
		minReady   int32
		active     string
		properties map[string]map[string]string
		want       string
	}{
		{1, "cluster", inRegion, "it has enough endpoints (at least 1 ready)"},
		{0, "property:region", inRegion, `tier "cluster" does not have enough endpoints (at least 1 ready for 5s)`},
		{3, "all", inRegion, `tiers "cluster", "property:region" do not have enough endpoints (at least 3 ready for 5s)`},
		{3, "all", nil, `tiers "cluster", "property:region" do not have enough endpoints (at least 3 ready for 5s)`},
		{
			3, "all", map[string]map[string]string{"east": {}},
			`tier "property:region" is skipped, because this cluster has no ClusterProperty "region"; tier "cluster" does not have enough endpoints (at least 3 ready for 5s)`,
		},
	} {
		clusters := Clusters{Own: "east", Properties: test.properties}
		if got := clusters.Reason(preferring(test.minReady, own, region), clusterpreference.Tier(test.active)); got != test.want {
			t.Errorf("tier %s: got %q, want %q", test.active, got, test.want)
		}
	}
	onlyRegion := Clusters{Own: "east", Properties: map[string]map[string]string{"east": {}}}.Reason(preferring(1, region), clusterpreference.All)
	if want := `tier "property:region" is skipped, because this cluster has no ClusterProperty "region"`; onlyRegion != want {
		t.Errorf("got %q, want %q", onlyRegion, want)
	}
}

// R606: a node that has no zone for a moment changes nothing.
func TestMethodChangesAfterAWhile(t *testing.T) {
	all, some := Zones{Names: []string{"a", "b"}, Nodes: 2}, Zones{Names: []string{"a"}, Nodes: 2, Problem: "node-2 has none"}
	none, empty := Zones{Nodes: 1, Problem: "nobody has any"}, Zones{Problem: "no nodes"}
	type step struct {
		after time.Duration
		zones Zones
		want  Zones
		wait  time.Duration
	}
	doubted := Zones{Names: []string{"a"}, Nodes: 2}
	for name, test := range map[string]struct {
		method Method
		steps  []step
	}{
		"at first":              {Auto, []step{{0, some, some, 0}, {0, all, all, 0}}},
		"a new zone":            {Auto, []step{{0, all, all, 0}, {0, Zones{Names: []string{"a", "c"}, Nodes: 2}, Zones{Names: []string{"a", "c"}, Nodes: 2}, 0}}},
		"for a moment":          {Auto, []step{{0, all, all, 0}, {0, some, doubted, zoneGrace}, {time.Second, some, doubted, zoneGrace - time.Second}, {0, all, all, 0}, {0, some, doubted, zoneGrace}}},
		"for long":              {Auto, []step{{0, all, all, 0}, {0, some, doubted, zoneGrace}, {zoneGrace, some, some, 0}, {0, some, some, 0}, {0, all, all, 0}}},
		"no zones":              {Auto, []step{{0, all, all, 0}, {0, none, Zones{Names: []string{"a", "b"}, Nodes: 1}, zoneGrace}, {zoneGrace, none, none, 0}}},
		"no nodes":              {Auto, []step{{0, all, all, 0}, {0, empty, all, 0}, {time.Hour, empty, all, 0}}},
		"no nodes at first":     {Auto, []step{{0, empty, empty, 0}, {0, all, all, 0}}},
		"hints were asked for":  {Hints, []step{{0, all, all, 0}, {0, some, some, 0}}},
		"labels were asked for": {Detach, []step{{0, all, all, 0}, {0, some, some, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			now := epoch
			var before *Settled
			for i, step := range test.steps {
				now = now.Add(step.after)
				settled, wait := test.method.Settle(before, step.zones, now)
				if diff := cmp.Diff(step.want, settled.Zones); diff != "" || wait != step.wait {
					t.Errorf("step %d: waits for %s, want %s: %s", i, wait, step.wait, diff)
				}
				before = &settled
			}
		})
	}
}
