// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package chaos

import (
	"testing"
	"time"
)

func at(seconds int) time.Time { return time.Unix(int64(seconds), 0) }

func TestObserverMeasuresTheSlowestChange(t *testing.T) {
	changes := NewChanges()
	observer := NewObserver(changes, "a", "b")
	expectDelay := func(now int, want time.Duration) {
		t.Helper()
		if got := observer.Delay(at(now)); got.Duration != want {
			t.Errorf("delay is %s, want %s", got, want)
		}
	}
	expectDelay(0, 0)
	for second := range 3 {
		changes.Written("a", at(second))
	}
	changes.Written("ignored", at(0))
	expectDelay(2, 2*time.Second) // on the way
	observer.Saw("a", 0, at(4))
	expectDelay(4, 4*time.Second)
	observer.Saw("a", 2, at(5)) // skips a change
	observer.Saw("a", 1, at(90))
	observer.Saw("ignored", 0, at(90))
	expectDelay(99, 4*time.Second)
	observer.Saw("b", 0, at(6)) // arrives before the write returns
	changes.Written("b", at(7))
	expectDelay(99, 4*time.Second)
	observer.Reset()
	expectDelay(99, 0)
	changes.Written("b", at(100))
	if pending := observer.Pending(at(103)); pending != (Delay{"b", 3 * time.Second}) {
		t.Errorf("pending since %s", pending)
	}
	expectDelay(103, 3*time.Second)
	if total := changes.Total(); total != 6 {
		t.Errorf("%d changes", total)
	}
}

func TestObserverThatStartsLateHasSeenNothing(t *testing.T) {
	changes := NewChanges()
	changes.Written("a", at(0))
	if delay := NewObserver(changes, "a").Delay(at(1)); delay != (Delay{"a", time.Second}) {
		t.Errorf("delay is %s", delay)
	}
}
