// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clockoffset

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"
)

// member is a member whose clock is ahead.
type member struct {
	Estimate
	ahead time.Duration
	now   time.Time
	rand  *rand.Rand
}

// probe lets the member respond as it does to probes: every five seconds or so, and after a
// while.
func (m *member) probe() {
	m.now = m.now.Add(4500*time.Millisecond + m.upTo(time.Second))
	there, back := m.upTo(30*time.Millisecond), m.upTo(30*time.Millisecond)
	date := m.now.Add(there + m.ahead).UTC().Format(http.TimeFormat)
	m.Observe(date, m.now, m.now.Add(there+back))
}

func (m *member) upTo(limit time.Duration) time.Duration {
	return time.Duration(m.rand.Int64N(int64(limit)))
}

// R522: the clock of a member is compared with that of this cluster, from the times in its
// responses, and again after one of the two was set.
func TestOffsetOfAClockIsEstimated(t *testing.T) {
	for seed := range uint64(50) {
		m := &member{ahead: 90*time.Second + 123*time.Millisecond, now: time.Unix(1e9, 0), rand: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // the same numbers in every run
		if _, ok := m.Offset(); ok {
			t.Fatal("the offset is known before any response")
		}
		expect := func(within time.Duration) {
			t.Helper()
			got, ok := m.Offset()
			if off := (got - m.ahead).Abs(); !ok || off > within {
				t.Errorf("with seed %d the offset is %s, %v, want %s within %s", seed, got, ok, m.ahead, within)
			}
		}
		for range 20 {
			m.probe()
			if got, ok := m.Offset(); ok && (got-m.ahead).Abs() > MaxError {
				t.Fatalf("with seed %d the offset is %s, want %s within %s", seed, got, m.ahead, MaxError)
			}
		}
		for range 200 {
			m.probe()
		}
		expect(100 * time.Millisecond)
		m.ahead = -time.Hour
		for range 200 {
			m.probe()
		}
		expect(100 * time.Millisecond)
	}
}

// R522
func TestOffsetIsUnknownIfResponsesTakeLong(t *testing.T) {
	var estimate Estimate
	sent := time.Unix(1e9, 0)
	date := sent.UTC().Format(http.TimeFormat)
	estimate.Observe("yesterday", sent, sent)
	estimate.Observe("", sent, sent)
	if _, ok := estimate.Offset(); ok {
		t.Error("a time that cannot be parsed counts")
	}
	estimate.Observe(date, sent, sent.Add(300*time.Millisecond))
	if offset, ok := estimate.Offset(); ok {
		t.Errorf("the offset is %s, although it may be off by 650 ms", offset)
	}
	estimate.Observe(date, sent.Add(900*time.Millisecond), sent.Add(time.Second))
	if offset, ok := estimate.Offset(); !ok || offset.Round(time.Millisecond) != -100*time.Millisecond {
		t.Errorf("the offset is %s, %v, want that of both responses", offset, ok)
	}
}
