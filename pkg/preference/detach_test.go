// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package preference

import (
	"testing"
	"time"
)

// R607
func TestSlicesOutsideOfTheTierAreDetached(t *testing.T) {
	type counts = map[string]map[string]int
	http, both := []string{"http"}, []string{"http", "dns"}
	for _, test := range []struct {
		name     string
		minReady int32
		ready    counts
		cluster  string
		ports    []string
		want     bool
	}{
		{"in the tier", 1, counts{"here": {"http": 1}, "there": {"http": 5}}, "here", http, false},
		{"outside", 1, counts{"here": {"http": 1}, "there": {"http": 5}}, "there", http, true},
		{"outside, without ready ones", 1, counts{"here": {"http": 1}}, "there", http, true},
		{"none ready in the tier", 1, counts{"here": {"http": 0}, "there": {"http": 5}}, "there", http, false},
		{"none in the tier", 1, counts{"there": {"http": 5}}, "there", http, false},
		{"nothing at all", 1, nil, "there", http, false},
		{"too few ready", 3, counts{"here": {"http": 2}, "there": {"http": 5}}, "there", http, false},
		{"just enough ready", 3, counts{"here": {"http": 3}, "there": {"http": 5}}, "there", http, true},
		{"no minimum", 0, counts{"there": {"http": 5}}, "there", http, false},
		{"a port that the tier lacks", 1, counts{"here": {"http": 1}}, "there", both, false},
		{"a port of which the tier has too few", 2, counts{"here": {"http": 2, "dns": 1}}, "there", both, false},
		{"a port that only the tier has", 1, counts{"here": {"http": 1, "dns": 1}}, "there", http, true},
		{"without ports", 1, counts{"here": {"http": 1}}, "there", nil, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := NewDetachment(isHere, test.minReady, both, test.ready, nil, epoch).Detaches(test.cluster, test.ports, false); got != test.want {
				t.Errorf("detached: %t, want %t", got, test.want)
			}
		})
	}
}

// R607: the endpoints of all clusters of the tier count together.
func TestEndpointsOfTheTierCountTogether(t *testing.T) {
	inRegion := func(cluster string) bool { return cluster == "here" || cluster == "near" }
	ready := map[string]map[string]int{"here": {"http": 1}, "near": {"http": 1}, "far": {"http": 9}}
	for minReady, want := range map[int32]bool{1: true, 2: true, 3: false} {
		if got := NewDetachment(inRegion, minReady, []string{"http"}, ready, nil, epoch).Detaches("far", []string{"http"}, false); got != want {
			t.Errorf("with a minimum of %d, detached: %t, want %t", minReady, got, want)
		}
	}
}

// R610: a slice that was attached because the tier had too few ready endpoints is detached when it
// has had enough for 5 seconds, for each port.
func TestSlicesStayAttachedForAWhile(t *testing.T) {
	enough, tooFew := map[string]map[string]int{"here": {"http": 1, "dns": 1}}, map[string]map[string]int{"here": {"dns": 1}}
	var lacked map[string]time.Time
	now := epoch
	for _, step := range []struct {
		after     time.Duration
		ready     map[string]map[string]int
		http, dns bool // an attached slice with the port is detached
		detached  bool // a detached one with the first port stays so
		wait      time.Duration
	}{
		{ready: enough, http: true, dns: true, detached: true},
		{ready: tooFew, dns: true},
		{after: time.Second, ready: enough, dns: true, detached: true, wait: TakeoverDelay - time.Second},
		{after: time.Second, ready: tooFew, dns: true},
		{after: TakeoverDelay - time.Millisecond, ready: enough, dns: true, detached: true, wait: time.Millisecond},
		{after: time.Millisecond, ready: enough, http: true, dns: true, detached: true},
		{after: time.Hour, ready: tooFew, dns: true},
	} {
		now = now.Add(step.after)
		detachment := NewDetachment(isHere, 1, []string{"dns", "http"}, step.ready, lacked, now)
		http, dns, detached := detachment.Detaches("far", []string{"http"}, false), detachment.Detaches("far", []string{"dns"}, false), detachment.Detaches("far", []string{"http"}, true)
		if http != step.http || dns != step.dns || detached != step.detached {
			t.Errorf("%+v: got %t, %t and %t", step, http, dns, detached)
		}
		var wait time.Duration
		if lacked, wait = detachment.Lacked(now); wait != step.wait {
			t.Errorf("%+v: waits for %s", step, wait)
		}
	}
}
