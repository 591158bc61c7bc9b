// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"net/netip"
	"testing"
	"time"
)

// Of two clusters that export at the same moment the older export's address stands,
// but an export that had to wait for one does not displace others.
func TestDecisionIsAsOldAsTheExportUnlessItHadToWait(t *testing.T) {
	for _, test := range []struct {
		name   string
		age    time.Duration
		waited bool
		want   time.Duration // ago
	}{
		{"new", 5 * time.Second, false, 5 * time.Second},
		{"new, and had to wait", 5 * time.Second, true, 0},
		{"so old that everybody has heard of it", PropagationDelay, false, 0},
		{"made by a faster clock", -time.Second, false, -time.Second},
	} {
		if got := Since(at(0).Add(-test.age), at(0), test.waited); at(0).Sub(got) != test.want {
			t.Errorf("%s: since %s ago, want %s", test.name, at(0).Sub(got), test.want)
		}
	}
}

func TestAddressRestsBeforeAnotherServiceGetsIt(t *testing.T) {
	addr := netip.MustParseAddr("243.1.0.1")
	hold := func(service string) func(*Quarantine) { return func(q *Quarantine) { q.Hold(addr, service) } }
	free := func(service string, seconds int64) func(*Quarantine) {
		return func(q *Quarantine) { q.Free(addr, service, at(seconds)) }
	}
	for _, test := range []struct {
		name        string
		events      []func(*Quarantine)
		same, other time.Duration // that the services have to wait at second 5
	}{
		{"never held", nil, 0, 0},
		{"held", []func(*Quarantine){hold("same")}, 0, PropagationDelay},
		{"given up just now", []func(*Quarantine){hold("same"), free("same", 5)}, 0, PropagationDelay},
		{"given up a moment ago", []func(*Quarantine){hold("same"), free("same", 2)}, 0, PropagationDelay - 3*time.Second},
		{"given up long ago", []func(*Quarantine){hold("same"), free("same", -5)}, 0, 0},
		{"given up without having been seen", []func(*Quarantine){free("same", 5)}, 0, PropagationDelay},
		{"given up and taken again", []func(*Quarantine){hold("same"), free("same", -5), hold("same")}, 0, PropagationDelay},
		{"held for two", []func(*Quarantine){hold("same"), hold("another"), free("same", 5)}, PropagationDelay, PropagationDelay},
		{"held for two, long ago", []func(*Quarantine){hold("another"), hold("same"), free("same", -5)}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var q Quarantine
			for _, event := range test.events {
				event(&q)
			}
			for service, want := range map[string]time.Duration{"same": test.same, "other": test.other} {
				if got := q.Wait(addr, service, at(5)); got != want {
					t.Errorf("%s has to wait for %s, want %s", service, got, want)
				}
			}
		})
	}
}

func TestQuarantineForgetsWhatIsOver(t *testing.T) {
	var q Quarantine
	addr := netip.MustParseAddr("243.1.0.1")
	q.Hold(netip.MustParseAddr("fd00::1"), "held")
	for second := range int64(1000) {
		q.Free(addr, "s", at(second))
		addr = addr.Next()
	}
	if most := 1 + 2*int(PropagationDelay/time.Second); len(q.entries) > most {
		t.Errorf("there are %d entries, want %d at most", len(q.entries), most)
	}
	if q.Wait(netip.MustParseAddr("fd00::1"), "s", at(1000)) == 0 {
		t.Error("it has forgotten what is held")
	}
}
