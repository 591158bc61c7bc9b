// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"net/netip"
	"testing"
	"time"
)

// When two clusters export at the same moment, the address of the older export stands,
// but an export that had to wait does not displace others.
func TestDecisionIsAsOldAsTheExportUnlessItWaited(t *testing.T) {
	for _, test := range []struct {
		name   string
		age    time.Duration
		waited bool
		want   time.Duration // ago
	}{
		{"new", 5 * time.Second, false, 5 * time.Second},
		{"new, waited", 5 * time.Second, true, 0},
		{"older than the propagation delay", PropagationDelay, false, 0},
		{"created by a faster clock", -time.Second, false, -time.Second},
	} {
		if got := Since(at(0).Add(-test.age), at(0), test.waited); at(0).Sub(got) != test.want {
			t.Errorf("%s: since %s ago, want %s", test.name, at(0).Sub(got), test.want)
		}
	}
}

func TestReleasedAddressIsQuarantined(t *testing.T) {
	addr := netip.MustParseAddr("243.1.0.1")
	hold := func(service string) func(*Quarantine) { return func(q *Quarantine) { q.Hold(addr, service) } }
	release := func(service string, seconds int64) func(*Quarantine) {
		return func(q *Quarantine) { q.Release(addr, service, at(seconds)) }
	}
	for _, test := range []struct {
		name        string
		events      []func(*Quarantine)
		same, other time.Duration // waits of the services at second 5
	}{
		{"never held", nil, 0, 0},
		{"held", []func(*Quarantine){hold("same")}, 0, PropagationDelay},
		{"just released", []func(*Quarantine){hold("same"), release("same", 5)}, 0, PropagationDelay},
		{"released recently", []func(*Quarantine){hold("same"), release("same", 2)}, 0, PropagationDelay - 3*time.Second},
		{"released long ago", []func(*Quarantine){hold("same"), release("same", -5)}, 0, 0},
		{"released, never seen held", []func(*Quarantine){release("same", 5)}, 0, PropagationDelay},
		{"released and held again", []func(*Quarantine){hold("same"), release("same", -5), hold("same")}, 0, PropagationDelay},
		{"held by two", []func(*Quarantine){hold("same"), hold("another"), release("same", 5)}, PropagationDelay, PropagationDelay},
		{"held by two long ago", []func(*Quarantine){hold("another"), hold("same"), release("same", -5)}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var q Quarantine
			for _, event := range test.events {
				event(&q)
			}
			for service, want := range map[string]time.Duration{"same": test.same, "other": test.other} {
				if got := q.Wait(addr, service, at(5)); got != want {
					t.Errorf("%s waits for %s, want %s", service, got, want)
				}
			}
		})
	}
}

func TestQuarantineRemovesExpiredEntries(t *testing.T) {
	var q Quarantine
	addr := netip.MustParseAddr("243.1.0.1")
	q.Hold(netip.MustParseAddr("fd00::1"), "held")
	for second := range int64(1000) {
		q.Release(addr, "s", at(second))
		addr = addr.Next()
	}
	if most := 1 + 2*int(PropagationDelay/time.Second); len(q.entries) > most {
		t.Errorf("got %d entries, want at most %d", len(q.entries), most)
	}
	if q.Wait(netip.MustParseAddr("fd00::1"), "s", at(1000)) == 0 {
		t.Error("the entry of a held address was removed")
	}
}
