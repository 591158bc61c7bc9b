// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package preference

import (
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
)

const (
	own    = clusterpreference.Own
	region = clusterpreference.Tier("property:region")
	all    = clusterpreference.All
)

// clusterset is one of clusters in two regions. Of relayed, no properties are known.
var clusterset = Clusters{Own: "here", Properties: map[string]map[string]string{
	"here":      {"region": "eu", "rack": "1"},
	"neighbor":  {"region": "eu"},
	"overseas":  {"region": "us", "color": "blue"},
	"misplaced": {},
}}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func preferring(minReady int32, tiers ...clusterpreference.Tier) clusterpreference.Preference {
	return clusterpreference.Preference{Tiers: tiers, MinReady: minReady}
}

// R602
func TestTierHasClustersWithTheSameProperty(t *testing.T) {
	for _, test := range []struct {
		tier    clusterpreference.Tier
		members []string
	}{
		{own, []string{"here"}},
		{region, []string{"here", "neighbor"}},
		{"property:rack", []string{"here"}},
		{"property:color", nil}, // this cluster has none
		{"property:unknown", nil},
		{"latency", nil}, // of a newer release
		{all, []string{"here", "neighbor", "overseas", "misplaced", "relayed"}},
	} {
		t.Run(string(test.tier), func(t *testing.T) {
			members := map[string]bool{}
			for _, member := range test.members {
				members[member] = true
			}
			for _, cluster := range []string{"here", "neighbor", "overseas", "misplaced", "relayed"} {
				if got := clusterset.In(test.tier, cluster); got != members[cluster] {
					t.Errorf("cluster %q is in tier %q: %t, want %t", cluster, test.tier, got, members[cluster])
				}
			}
		})
	}
}

// R603: the first tier with enough ready endpoints is active.
func TestFirstTierWithEnoughReadyEndpointsIsActive(t *testing.T) {
	for _, test := range []struct {
		name       string
		preference clusterpreference.Preference
		ready      map[string]int
		want       clusterpreference.Tier
	}{
		{"own cluster", preferring(1, own, region), map[string]int{"here": 1, "neighbor": 9, "overseas": 9}, own},
		{"own cluster has none", preferring(1, own, region), map[string]int{"here": 0, "neighbor": 1, "overseas": 9}, region},
		{"region has none", preferring(1, own, region), map[string]int{"overseas": 1}, all},
		{"none at all", preferring(1, own, region), nil, all},
		{"too few", preferring(2, own), map[string]int{"here": 1, "overseas": 2}, all},
		{"just enough", preferring(2, own), map[string]int{"here": 2, "overseas": 2}, own},
		{"endpoints of a tier are counted together", preferring(3, own, region), map[string]int{"here": 2, "neighbor": 1}, region},
		{"too few everywhere", preferring(9, own, region), map[string]int{"here": 1, "neighbor": 1, "overseas": 1}, all},
		{"another order", preferring(1, region, own), map[string]int{"here": 1, "neighbor": 1}, region},
		{"property that this cluster lacks", preferring(1, "property:color", own), map[string]int{"here": 1, "overseas": 1}, own},
		{"tier of a newer release", preferring(1, "latency", own), map[string]int{"here": 1, "overseas": 1}, own},
		{"no minimum", preferring(0, own), map[string]int{"overseas": 1}, all},
		{"no tiers", preferring(1), map[string]int{"here": 1}, all},
	} {
		t.Run(test.name, func(t *testing.T) {
			state, wait := Decide(test.preference, clusterset, test.ready, State{}, epoch)
			if state.Active != test.want || wait != 0 {
				t.Errorf("got tier %q and wait %s, want %q at once", state.Active, wait, test.want)
			}
		})
	}
}

// R604: falling back is immediate; a better tier takes over only when it has been usable for
// TakeoverDelay without interruption.
func TestBetterTierTakesOverAfterADelay(t *testing.T) {
	type step struct {
		after  time.Duration // since epoch
		ready  map[string]int
		want   clusterpreference.Tier
		waited time.Duration
	}
	everywhere := map[string]int{"here": 1, "neighbor": 1, "overseas": 1}
	notHere := map[string]int{"neighbor": 1, "overseas": 1}
	overseas := map[string]int{"overseas": 1}
	for _, test := range []struct {
		name  string
		steps []step
	}{
		{"falls back and returns", []step{
			{0, everywhere, own, 0},
			{time.Second, notHere, region, 0},
			{2 * time.Second, overseas, all, 0},
			{3 * time.Second, everywhere, all, 5 * time.Second},
			{7 * time.Second, everywhere, all, time.Second},
			{8 * time.Second, everywhere, own, 0},
		}},
		{"falls back past a tier that is not usable", []step{
			{0, everywhere, own, 0},
			{time.Second, overseas, all, 0},
		}},
		{"an interruption starts the delay again", []step{
			{0, overseas, all, 0},
			{time.Second, everywhere, all, 5 * time.Second},
			{5 * time.Second, overseas, all, 0},
			{6 * time.Second, everywhere, all, 5 * time.Second},
			{10 * time.Second, everywhere, all, time.Second},
			{11 * time.Second, everywhere, own, 0},
		}},
		{"tiers take over one after the other", []step{
			{0, overseas, all, 0},
			{time.Second, notHere, all, 5 * time.Second},
			{4 * time.Second, everywhere, all, 2 * time.Second},
			{6 * time.Second, everywhere, region, 3 * time.Second},
			{9 * time.Second, everywhere, own, 0},
		}},
		{"falls back while a better tier is awaited", []step{
			{0, notHere, region, 0},
			{time.Second, everywhere, region, 5 * time.Second},
			{2 * time.Second, map[string]int{"here": 1}, region, 4 * time.Second}, // it has the ones here
			{3 * time.Second, overseas, all, 0},
		}},
		{"a worse tier that was usable all along needs no delay", []step{
			{0, everywhere, own, 0},
			{time.Minute, notHere, region, 0},
			{time.Minute, everywhere, region, 5 * time.Second},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var state State
			for _, step := range test.steps {
				var wait time.Duration
				state, wait = Decide(preferring(1, own, region), clusterset, step.ready, state, epoch.Add(step.after))
				if state.Active != step.want || wait != step.waited {
					t.Fatalf("after %s: got tier %q and wait %s, want %q and %s", step.after, state.Active, wait, step.want, step.waited)
				}
			}
		})
	}
}

// A preference that changes takes effect at once, unless the active tier is one of the new
// ones.
func TestChangedPreferenceTakesEffect(t *testing.T) {
	ready := map[string]int{"here": 1, "neighbor": 1}
	before, _ := Decide(preferring(1, region), clusterset, ready, State{}, epoch)
	if state, wait := Decide(preferring(1, own), clusterset, ready, before, epoch); state.Active != own || wait != 0 {
		t.Errorf("got tier %q and wait %s, want %q at once", state.Active, wait, own)
	}
	if state, wait := Decide(preferring(1, own, region), clusterset, ready, before, epoch); state.Active != region || wait != TakeoverDelay {
		t.Errorf("got tier %q and wait %s, want %q and %s", state.Active, wait, region, TakeoverDelay)
	}
}

// R603
func TestTerminatingEndpointsAreNotReady(t *testing.T) {
	for _, test := range []struct {
		name       string
		conditions discoveryv1.EndpointConditions
		want       bool
	}{
		{"unknown", discoveryv1.EndpointConditions{}, true},
		{"ready", discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)}, true},
		{"not ready", discoveryv1.EndpointConditions{Ready: ptr.To(false)}, false},
		{"terminating, but serving", discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)}, false},
		{"terminating, and published although not ready", discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(true)}, false},
	} {
		if got := IsReady(discoveryv1.Endpoint{Conditions: test.conditions}); got != test.want {
			t.Errorf("%s: got %t, want %t", test.name, got, test.want)
		}
	}
}
