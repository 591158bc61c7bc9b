// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// R322: a connection that began before its endpoint was exported may arrive there, because its
// packets are sent again.
func TestConnectionMayArriveLate(t *testing.T) {
	bed := calm(0)
	for _, of := range bed.source.Services() {
		for _, address := range bed.source.Addresses("east", of) {
			exported := bed.source.Endpoint("east", of, address).True
			if len(exported) == 0 {
				continue
			}
			began := exported[0].From.Add(-time.Second)
			for arrived, violations := range map[time.Time]int{exported[0].From.Add(time.Second): 0, began.Add(time.Millisecond): 1} {
				late := calm(0)
				late.insert(arrived, history.Entry{Connection: &history.Connection{Cluster: "west", Service: of, Began: began, BackendCluster: "east", BackendAddress: address}})
				if found := violationsOf(t, late.history()); len(found) != violations {
					t.Errorf("%d violations by a connection that began at %s and arrived at %s: %v", len(found), began, arrived, found)
				}
			}
			return
		}
	}
	t.Error("no endpoint is exported")
}

// R322: DNS that lags behind after an outage in its cluster answers with endpoints that are gone,
// and connections arrive there. Otherwise that is a violation.
func TestDNSMayLagAfterAnOutage(t *testing.T) {
	for _, outage := range []string{"west", "east", ""} {
		bed := calm(0)
		began, want := bed.end().Add(-10*time.Second), 1
		of := bed.source.Services()[0]
		bed.insert(began.Add(time.Millisecond), history.Entry{Connection: &history.Connection{Cluster: "west", Service: of, Began: began, BackendCluster: "west", BackendAddress: "192.0.2.1"}})
		if outage != "" {
			fault := history.Fault{ID: -1, Kind: "kill", Clusters: []string{outage}}
			end := fault
			end.End = true
			after := bed.run.Recovery + bed.run.Propagation + time.Second
			bed.insert(began.Add(-after-time.Minute), history.Entry{Fault: &fault})
			bed.insert(began.Add(-after), history.Entry{Fault: &end})
		}
		if outage == "west" {
			want = 0
		}
		if found := violationsOf(t, bed.history()); len(found) != want {
			t.Errorf("outage of %q: %d violations, want %d: %v", outage, len(found), want, found)
		}
	}
}
