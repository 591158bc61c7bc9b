// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

var testEpoch = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

func TestVersionsIncreaseAndDifferForConcurrentCallers(t *testing.T) {
	versions := NewVersionSource(clocktesting.NewFakePassiveClock(testEpoch))
	const callers, each = 8, 2000
	issued := make([][]uint64, callers)
	var group sync.WaitGroup
	for i := range issued {
		group.Go(func() {
			for range each {
				issued[i] = append(issued[i], versions.Next())
			}
		})
	}
	group.Wait()
	var all []uint64
	for _, own := range issued {
		if !slices.IsSorted(own) {
			t.Fatal("a caller got a version that is not higher than its previous one")
		}
		all = append(all, own...)
	}
	slices.Sort(all)
	if distinct := len(slices.Compact(all)); distinct != callers*each {
		t.Errorf("got %d distinct versions, want %d", distinct, callers*each)
	}
}

func TestVersionsIncreaseWhenTheWallClockGoesBack(t *testing.T) {
	wall := clocktesting.NewFakePassiveClock(testEpoch)
	versions := NewVersionSource(wall)
	last := versions.Next()
	for _, jump := range []time.Duration{-time.Hour, -time.Millisecond, time.Minute, -24 * time.Hour, 25 * time.Hour} {
		wall.SetTime(wall.Now().Add(jump))
		next := versions.Next()
		if next <= last {
			t.Errorf("after a jump of %s: got %d after %d", jump, next, last)
		}
		last = next
	}
}

func TestVersionsIncreaseAcrossRestarts(t *testing.T) {
	for range 100 { // the bits of the process are random, and must not matter
		before := NewVersionSource(clocktesting.NewFakePassiveClock(testEpoch)).Next()
		after := NewVersionSource(clocktesting.NewFakePassiveClock(testEpoch.Add(time.Millisecond))).Next()
		if after <= before {
			t.Fatalf("got %d after %d", after, before)
		}
	}
}

func TestVersionsOverflowIntoTheNextMillisecond(t *testing.T) {
	versions := NewVersionSource(clocktesting.NewFakePassiveClock(testEpoch))
	last := versions.Next()
	for range 3 * (maxSequence + 1) {
		next := versions.Next()
		if next <= last {
			t.Fatalf("got %d after %d", next, last)
		}
		last = next
	}
	if ahead := IssuedAt(last).Sub(testEpoch); ahead != 3*time.Millisecond {
		t.Errorf("the versions are %s ahead of the clock, want 3ms", ahead)
	}
}

func TestVersionsFitIntoSignedIntegers(t *testing.T) {
	for _, at := range []time.Time{
		{}, // the clock is not set
		versionEpoch,
		testEpoch,
		time.Date(2093, time.January, 1, 0, 0, 0, 0, time.UTC),
	} {
		version := NewVersionSource(clocktesting.NewFakePassiveClock(at)).Next()
		if version == 0 || version > math.MaxInt64 {
			t.Errorf("the version at %s is %d", at, version)
		}
	}
}

func TestVersionEncodesItsTime(t *testing.T) {
	version := NewVersionSource(clocktesting.NewFakePassiveClock(testEpoch)).Next()
	if got := IssuedAt(version); !got.Equal(testEpoch) {
		t.Errorf("got %s, want %s", got, testEpoch)
	}
	if lowestVersionAt(testEpoch) > version || lowestVersionAt(testEpoch.Add(time.Millisecond)) <= version {
		t.Error("the version is outside its millisecond")
	}
}
