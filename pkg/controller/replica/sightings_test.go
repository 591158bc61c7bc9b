// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"slices"
	"testing"
	"time"
)

// R193: a replica is taken out of service once when it has not renewed its Lease for some time,
// and again only after it has been seen meanwhile.
func TestReplicaIsSilentOnceItsLeaseIsUnchanged(t *testing.T) {
	a, b := Pod{"a", "1"}, Pod{"b", "2"}
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var seen sightings
	var silent []Pod
	read := func(want ...Pod) func(renewedA, renewedB int) {
		return func(renewedA, renewedB int) {
			t.Helper()
			seen, silent = seen.next(map[Pod]time.Time{
				a: start.Add(time.Duration(renewedA) * time.Second), b: start.Add(time.Duration(renewedB) * time.Second),
			})
			if !slices.Equal(silent, want) {
				t.Errorf("silent: %v, want %v", silent, want)
			}
		}
	}
	for second := range 10 {
		read()(second, second)
	}
	for second := 10; second < 10+tolerated-1; second++ {
		read()(9, second)
	}
	read(a)(9, 20)
	for second := 21; second < 30; second++ {
		read()(9, second) // reported before
	}
	read()(30, 30)
	for second := 31; second < 30+tolerated; second++ {
		read()(30, second)
	}
	read(a)(30, 40)

	seen = nil // after a failed read, everything is new
	for second := 41; second < 41+tolerated; second++ {
		read()(30, second)
	}
	read(a)(30, 50)
	if seen, _ = seen.next(nil); len(seen) != 0 {
		t.Errorf("deleted replicas are remembered: %v", seen)
	}
}
