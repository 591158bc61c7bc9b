// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package coalesce

import (
	"math/rand/v2"
	"testing"
	"time"
)

const interval = 100 * time.Millisecond

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// R279: the first request is served at once, and all others together when the interval
// has passed since.
func TestFirstRequestIsServedAtOnceAndOthersTogether(t *testing.T) {
	s := New(interval)
	now := epoch
	request := func(wantWait time.Duration, wantArranged bool) {
		t.Helper()
		if wait, arranged := s.Request(now); wait != wantWait || arranged != wantArranged {
			t.Errorf("at %s: wait %s, arranged %t, want %s, %t", now.Sub(epoch), wait, arranged, wantWait, wantArranged)
		}
	}
	request(0, false)
	s.Done(now)
	now = now.Add(30 * time.Millisecond)
	request(70*time.Millisecond, false)
	request(0, true)
	now = now.Add(69 * time.Millisecond)
	if s.Due(now) {
		t.Error("due too early")
	}
	now = now.Add(time.Millisecond)
	if !s.Due(now) || !s.Pending() {
		t.Error("not due")
	}
	s.Done(now)
	if s.Due(now.Add(time.Hour)) || s.Pending() {
		t.Error("due although it was done")
	}
	now = now.Add(interval)
	request(0, false)
}

// Work that was done for another reason serves what is pending, and begins another
// interval.
func TestWorkForAnotherReasonCounts(t *testing.T) {
	s := New(interval)
	s.Done(epoch)
	if wait, _ := s.Request(epoch.Add(time.Millisecond)); wait != 99*time.Millisecond {
		t.Errorf("wait %s", wait)
	}
	s.Done(epoch.Add(50 * time.Millisecond))
	if wait, arranged := s.Request(epoch.Add(60 * time.Millisecond)); wait != 90*time.Millisecond || arranged {
		t.Errorf("wait %s, arranged %t", wait, arranged)
	}
	if s.Due(epoch.Add(100 * time.Millisecond)) { // when the first one expected it
		t.Error("due too early")
	}
}

func TestClockThatIsSetBackDelaysNothing(t *testing.T) {
	s := New(interval)
	s.Done(epoch)
	if wait, arranged := s.Request(epoch.Add(-time.Hour)); wait != 0 || arranged {
		t.Errorf("wait %s, arranged %t", wait, arranged)
	}
}

// R279: however requests come in, the work is done at most once per interval, and no
// request waits longer than that.
func TestWorkIsDoneOncePerInterval(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // reproducible, no secret
		s := New(interval)
		var wake, asked, last time.Time
		done := 0
		for now := epoch; now.Before(epoch.Add(10 * time.Second)); now = now.Add(time.Millisecond) {
			run := !wake.IsZero() && !now.Before(wake) && s.Due(now)
			if !run && random.IntN(10) == 0 {
				if asked.IsZero() {
					asked = now
				}
				wait, arranged := s.Request(now)
				if run = wait == 0 && !arranged; wait > 0 {
					wake = now.Add(wait)
				}
			}
			if !run {
				continue
			}
			if done > 0 && now.Sub(last) < interval || !asked.IsZero() && now.Sub(asked) > interval {
				t.Fatalf("seed %d: done after %s, asked for %s ago", seed, now.Sub(last), now.Sub(asked))
			}
			s.Done(now)
			done, last, asked, wake = done+1, now, time.Time{}, time.Time{}
		}
		if done < 50 {
			t.Errorf("seed %d: done %d times", seed, done)
		}
	}
}
