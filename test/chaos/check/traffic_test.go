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
