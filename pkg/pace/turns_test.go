// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

// A key waits once, unless it becomes larger meanwhile, and nobody waits for those that do
// not write.
func TestTurnsOfKeys(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	limited := NewTurns[int](clock, 1000, 1000)
	for i, step := range []struct {
		passed time.Duration
		key    int
		bytes  int
		wait   time.Duration
		end    bool
	}{
		{0, 1, 1000, 0, true},
		{0, 2, 500, 500 * time.Millisecond, false},
		{0, 3, 3000, 3500 * time.Millisecond, false}, // more than a burst
		{400 * time.Millisecond, 2, 400, 100 * time.Millisecond, false},
		{0, 2, 600, 3200 * time.Millisecond, false}, // 100 more
		{3100 * time.Millisecond, 3, 3000, 0, true},
		{0, 2, 600, 100 * time.Millisecond, false},
		{100 * time.Millisecond, 2, 600, 0, false},
		{0, 2, 600, 0, true}, // it was not written before
		{0, 2, 600, 600 * time.Millisecond, true},
	} {
		clock.SetTime(clock.Now().Add(step.passed))
		if wait := limited.Wait(step.key, []string{"west"}, step.bytes); wait.Round(time.Millisecond) != step.wait {
			t.Errorf("step %d: wait %s, want %s", i, wait, step.wait)
		}
		if step.end {
			limited.End(step.key)
		}
	}
}

// Turns of keys that have nothing to write any more take no memory.
func TestUnusedTurnsAreForgotten(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	limited := NewTurns[int](clock, 1000, 1000)
	for number := range 20 * minTurns {
		limited.Wait(number, []string{"west"}, 100)
		clock.SetTime(clock.Now().Add(100 * time.Millisecond))
	}
	if held := len(limited.turns); held > 2*minTurns {
		t.Errorf("%d turns are held, of which %d may be used", held, int(turnValid/(100*time.Millisecond)))
	}
}

// What may be because of several members waits for the one whose turn is first.
func TestShortestTurnOfSeveralMembersCounts(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(epoch)
	limited := NewTurns[int](clock, 1000, 1000)
	limited.Wait(1, []string{"west"}, 5000)
	if wait := limited.Wait(2, []string{"west"}, 1000); wait.Round(time.Millisecond) != 5*time.Second {
		t.Errorf("wait %s for west", wait)
	}
	if wait := limited.Wait(2, []string{"west", "east"}, 1000); wait != 0 {
		t.Errorf("wait %s for east, too", wait)
	}
	if wait := limited.Wait(3, []string{"east"}, 500); wait.Round(time.Millisecond) != 500*time.Millisecond {
		t.Errorf("wait %s for east after that", wait)
	}
}
