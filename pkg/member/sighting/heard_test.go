// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sighting

import (
	"testing"
	"time"
	"unsafe"
)

// R375: every sighting counts once, by the clock of this process.
func TestSightingsAreHeardOnce(t *testing.T) {
	const ttl = time.Minute
	seen := func(after time.Duration) Sighting { return Sighting{Member: "east", UID: "uid", At: epoch.Add(after)} }
	lost := func(seen Sighting) Sighting {
		seen.Lost = true
		return seen
	}
	other := func(seen Sighting) Sighting {
		seen.UID = "other"
		return seen
	}
	type event struct {
		now  time.Duration
		seen Sighting
	}
	for _, test := range []struct {
		name   string
		events []event
		want   time.Duration
	}{
		{"a while ago", []event{{time.Hour, seen(time.Minute)}}, time.Minute},
		{"in the future", []event{{time.Minute, seen(time.Hour)}}, time.Minute},
		{"in the future, again", []event{{time.Minute, seen(time.Hour)}, {2 * time.Minute, seen(time.Hour)}}, time.Minute},
		{"in the future, in turns with another", []event{{1, seen(time.Hour)}, {2, seen(1)}, {3, seen(time.Hour)}}, 1},
		{"in the future, and then later", []event{{time.Minute, seen(time.Hour)}, {2 * time.Minute, seen(time.Hour + 1)}}, 2 * time.Minute},
		{"present after one in the future", []event{{time.Minute, seen(time.Hour)}, {2 * time.Minute, seen(2 * time.Minute)}}, 2 * time.Minute},
		{"in the future, after one that was even further ahead", []event{{0, seen(2 * time.Hour)}, {time.Minute, seen(time.Minute + 3)}, {2 * time.Minute, seen(2*time.Minute + 3)}}, 2 * time.Minute},
		{"in the future, again, after one that was even further ahead", []event{{0, seen(2 * time.Hour)}, {1, seen(4)}, {2, seen(5)}, {3, seen(5)}, {6, seen(5)}}, 2},
		{"older", []event{{time.Hour, seen(time.Hour)}, {2 * time.Hour, seen(0)}}, time.Hour},
		{"older, of another cluster", []event{{time.Hour, seen(time.Hour)}, {2 * time.Hour, other(seen(0))}}, 0},
		{"lost", []event{{time.Hour, lost(seen(30 * time.Minute))}}, 30 * time.Minute},
		{"lost, and in the future", []event{{time.Hour, lost(seen(2 * time.Hour))}}, time.Hour - ttl},
		{"lost by now, and in the future", []event{{time.Hour, seen(2 * time.Hour)}, {2 * time.Hour, lost(seen(2 * time.Hour))}}, time.Hour},
		{"seen after it was lost", []event{{time.Hour, lost(seen(2 * time.Hour))}, {time.Hour + 1, seen(time.Hour + 1)}}, time.Hour + 1},
	} {
		var heard Heard
		for _, event := range test.events {
			heard = heard.Hear(event.seen, epoch.Add(event.now))
		}
		if got := heard.SeenAt(ttl).Sub(epoch); got != test.want {
			t.Errorf("%s: seen at %s, want %s", test.name, got, test.want)
		}
	}
	if got := (Heard{}).Hear(Sighting{Member: "east"}, epoch).SeenAt(ttl); !got.IsZero() {
		t.Errorf("never seen: %s", got)
	}
}

// R301: that all replicas were down is not the silence of a member. While any of them runs, it
// sees the member or records that the member was lost.
func TestDowntimeIsNotASilence(t *testing.T) {
	const ttl = time.Minute
	now := epoch.Add(3 * time.Hour)
	for _, test := range []struct {
		name string
		seen Sighting
		want time.Time
	}{
		{"nothing is known", Sighting{}, now},
		{"another cluster", Sighting{UID: "other", At: now.Add(-time.Second)}, time.Time{}},
		{"an unknown cluster", Sighting{At: now.Add(-time.Second)}, now},
		{"another replica may run", Sighting{UID: "uid", At: now.Add(1 - 2*ttl)}, now.Add(1 - 2*ttl)},
		{"no replica ran", Sighting{UID: "uid", At: now.Add(-2 * ttl)}, now},
		{"lost before", Sighting{UID: "uid", At: epoch, Lost: true}, epoch},
	} {
		if got := (Heard{}).Hear(test.seen, now).Resumed("uid", now, ttl); !got.Equal(test.want) {
			t.Errorf("%s: seen at %s, want %s", test.name, got, test.want)
		}
	}
}

// R375: a clock that is set back leaves nothing in the future.
func TestNothingIsSeenInTheFuture(t *testing.T) {
	now := epoch.Add(2 * time.Hour)
	heard := Heard{}.Hear(Sighting{Member: "east", UID: "uid", At: now}, now)
	if got := heard.Rebase(now.Add(time.Second)).SeenAt(0); !got.Equal(now) {
		t.Errorf("the clock goes on: %s", got)
	}
	if got := heard.Rebase(epoch).SeenAt(0); !got.Equal(epoch) {
		t.Errorf("the clock was set back: %s", got)
	}
	running := time.Now() // with the time that has passed in this process
	if got := Rebase(running, running.Add(time.Second)); got != running {
		t.Errorf("the clock goes on: %s", got)
	}
	back := stepped(running.Add(time.Second), -2*time.Hour)
	if got := Rebase(running, back); back.Sub(got) != time.Second || !got.Round(0).Equal(back.Round(0).Add(-time.Second)) {
		t.Errorf("the clock was set back a second later: %s, it is %s", got, back)
	}
}

// stepped returns a time as it would have been read had the wall clock, but not the monotonic
// clock, been set before.
func stepped(at time.Time, by time.Duration) time.Time {
	type representation struct {
		wall uint64
		ext  int64
		loc  *time.Location
	}
	(*representation)(unsafe.Pointer(&at)).wall += uint64(by/time.Second) << 30 //nolint:gosec // there is no other way to set a clock
	return at
}
