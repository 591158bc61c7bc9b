// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// R624: each cluster sees how much is exported to it.
func TestCountsDependOnTheReader(t *testing.T) {
	var counts Counts
	all, both := NewShare(nil, 2, 5), NewShare(clusterset.NewAudience("west", "north"), 1, 4)
	west, none := NewShare(clusterset.NewAudience("west"), 1, 3), NewShare(clusterset.NewAudience(), 1, 1)
	for _, share := range []Share{all, both, west, none} {
		counts.Replace(Share{}, share)
	}
	more := NewShare(clusterset.NewAudience("west"), 1, 5)
	counts.Replace(west, more)
	counts.Replace(none, Share{})
	for cluster, want := range map[string][2]int32{"west": {4, 14}, "north": {3, 9}, "south": {2, 5}} {
		if exports, endpoints := counts.VisibleTo(cluster); exports != want[0] || endpoints != want[1] {
			t.Errorf("%s sees %d exports and %d endpoints, want %v", cluster, exports, endpoints, want)
		}
	}
	if exports, endpoints := counts.Total(); exports != 4 || endpoints != 14 {
		t.Errorf("there are %d exports and %d endpoints, want 4 and 14", exports, endpoints)
	}
	for _, share := range []Share{all, both, more} {
		counts.Replace(share, Share{})
	}
	if exports, endpoints := counts.Total(); exports != 0 || endpoints != 0 || len(counts.restricted) > 0 {
		t.Errorf("%d exports, %d endpoints and %d audiences are left", exports, endpoints, len(counts.restricted))
	}
}

func TestSharesAreComparedByTheirAudience(t *testing.T) {
	share := NewShare(clusterset.NewAudience("north", "west"), 1, 2)
	if !share.Equal(NewShare(clusterset.NewAudience("west", "north"), 1, 2)) || !NewShare(nil, 1, 2).Equal(Share{Exports: 1, Endpoints: 2}) {
		t.Error("equal shares differ")
	}
	for _, other := range []Share{NewShare(clusterset.NewAudience("north", "west"), 1, 3), NewShare(clusterset.NewAudience("north"), 1, 2), NewShare(clusterset.NewAudience(), 1, 2), NewShare(nil, 1, 2), {}} {
		if share.Equal(other) || other.Equal(share) {
			t.Errorf("%+v equals %+v", share, other)
		}
	}
	if NewShare(clusterset.NewAudience(), 1, 2).Equal(NewShare(nil, 1, 2)) {
		t.Error("what is for no cluster equals what is for all")
	}
}

// A change costs as much as if there were one audience only.
func TestCountsAreChangedInPlace(t *testing.T) {
	const audiences, changes = 10_000, 1000
	var counts Counts
	share := func(i int, endpoints int32) Share {
		return NewShare(clusterset.NewAudience(fmt.Sprintf("cluster-%d", i)), 1, endpoints)
	}
	for i := range audiences {
		counts.Replace(Share{}, share(i, 1))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range changes {
		counts.Replace(share(i, 1), share(i, 2))
	}
	runtime.ReadMemStats(&after)
	if bytes := (after.TotalAlloc - before.TotalAlloc) / changes; bytes > 10<<10 {
		t.Errorf("a change takes %d bytes of memory", bytes)
	}
	if exports, endpoints := counts.VisibleTo("cluster-0"); exports != 1 || endpoints != 2 {
		t.Errorf("cluster-0 sees %d exports and %d endpoints, want 1 and 2", exports, endpoints)
	}
}

// What moves from one audience to another is always counted.
func TestCountsAreReadWhileTheyChange(t *testing.T) {
	var counts Counts
	one, other := NewShare(clusterset.NewAudience("north", "west"), 1, 2), NewShare(clusterset.NewAudience("west"), 1, 2)
	counts.Replace(Share{}, one)
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			for range 1000 {
				if exports, endpoints := counts.VisibleTo("west"); exports != 1 || endpoints != 2 {
					t.Errorf("west sees %d exports and %d endpoints, want 1 and 2", exports, endpoints)
					return
				}
			}
		})
	}
	for range 1000 {
		counts.Replace(one, other)
		one, other = other, one
	}
	running.Wait()
}
