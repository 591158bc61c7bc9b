// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"math/rand/v2"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestBurstIsAllowedThenOncePerInterval(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(epoch)
	limiter := New[string](clock, time.Second, 3)
	for i, step := range []struct {
		passed time.Duration
		key    string
		wait   time.Duration
	}{
		{0, "web", 0}, {0, "web", 0}, {0, "web", 0},
		{0, "web", time.Second},
		{0, "web", time.Second}, // what was not allowed does not count
		{0, "other", 0},
		{400 * time.Millisecond, "web", 600 * time.Millisecond},
		{600 * time.Millisecond, "web", 0},
		{0, "web", time.Second},
		{3 * time.Second, "web", 0}, {0, "web", 0}, {0, "web", 0}, // a full burst again
		{0, "web", time.Second},
	} {
		clock.SetTime(clock.Now().Add(step.passed))
		if wait := limiter.Take(step.key); wait.Round(time.Millisecond) != step.wait {
			t.Errorf("step %d: wait %s, want %s", i, wait, step.wait)
		}
	}
}

// However often it is asked, an action is allowed at most burst times more than there
// are intervals; and a caller that waits as long as it is told makes progress.
func TestRateIsLimitedWheneverItIsAsked(t *testing.T) {
	const burst = 5
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		clock := testingclock.NewFakePassiveClock(epoch)
		limiter := New[int](clock, time.Second, burst)
		allowed := 0
		for range 2000 {
			clock.SetTime(clock.Now().Add(time.Duration(random.IntN(20)) * time.Millisecond))
			wait := limiter.Take(7)
			if wait == 0 {
				allowed++
			}
			if random.IntN(100) == 0 && wait > 0 {
				clock.SetTime(clock.Now().Add(wait))
				if again := limiter.Take(7); again != 0 {
					t.Fatalf("seed %d: must wait another %s after %s", seed, again, wait)
				}
				allowed++
			}
		}
		if passed := clock.Since(epoch); allowed > burst+int(passed/time.Second) || allowed < int(passed/time.Second) {
			t.Errorf("seed %d: allowed %d times in %s", seed, allowed, passed)
		}
	}
}

// What is reserved is allowed in the order of reservations, also if it is more than a
// burst, and it all counts.
func TestReservationsAreAllowedInTurn(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(epoch)
	limiter := New[string](clock, time.Second, 10)
	for i, step := range []struct {
		passed  time.Duration
		key     string
		actions int
		wait    time.Duration
	}{
		{0, "west", 0, 0},
		{0, "west", 8, 0}, {0, "west", 2, 0},
		{0, "west", 5, 5 * time.Second},
		{0, "west", 25, 30 * time.Second}, // after those before
		{0, "west", 1, 31 * time.Second},
		{0, "east", 10, 0},
		{0, "north", 25, 15 * time.Second},
		{31 * time.Second, "west", 0, 0},
		{0, "west", 1, time.Second},
		{11 * time.Second, "west", 10, 0}, // a full burst again
	} {
		clock.SetTime(clock.Now().Add(step.passed))
		if wait := limiter.Reserve(step.key, step.actions); wait.Round(time.Millisecond) != step.wait {
			t.Errorf("step %d: wait %s, want %s", i, wait, step.wait)
		}
	}
}

// Keys that are no longer used take no memory.
func TestUnusedKeysAreForgotten(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(epoch)
	limiter := New[int](clock, time.Second, 3)
	for key := range 100 * minSweep {
		clock.SetTime(clock.Now().Add(10 * time.Millisecond))
		limiter.Take(key)
	}
	if held := len(limiter.keys); held > 2*minSweep {
		t.Errorf("holds %d keys, of which about 100 are in use", held)
	}
}

// Asking how long to wait counts as nothing, however often.
func TestWaitingTimeIsThatOfTake(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(epoch)
	limiter := New[string](clock, time.Second, 2)
	for i, taken := range []time.Duration{0, 0, time.Second, 600 * time.Millisecond, 0, time.Second} {
		for range 3 {
			if wait := limiter.Wait("web"); wait.Round(time.Millisecond) != taken {
				t.Errorf("step %d: wait %s, want %s", i, wait, taken)
			}
		}
		if wait := limiter.Take("web"); wait.Round(time.Millisecond) != taken {
			t.Errorf("step %d: %s to wait for the action, want %s", i, wait, taken)
		}
		switch i {
		case 2:
			clock.SetTime(clock.Now().Add(400 * time.Millisecond))
		case 3:
			clock.SetTime(clock.Now().Add(600 * time.Millisecond))
		}
	}
	if len(limiter.keys) != 1 || limiter.Wait("other") != 0 || len(limiter.keys) != 1 {
		t.Errorf("holds %d keys, want one", len(limiter.keys))
	}
}
