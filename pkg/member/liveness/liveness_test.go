// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"testing"
	"time"
	"unsafe"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const never = -1

func before(silent time.Duration) time.Time {
	if silent == never {
		return time.Time{}
	}
	return epoch.Add(-silent)
}

func TestStateDependsOnTheLastContact(t *testing.T) {
	for _, test := range []struct {
		// here and elsewhere are how long the member has been silent; negative if it
		// was never seen.
		here, elsewhere time.Duration
		want            clusterset.MemberState
	}{
		{0, never, clusterset.MemberConnected},
		{StaleAfter - 1, never, clusterset.MemberConnected},
		{StaleAfter, never, clusterset.MemberStale},
		{time.Minute - 1, never, clusterset.MemberStale},
		{time.Minute, never, clusterset.MemberLost},
		// R168
		{0, time.Hour, clusterset.MemberConnected},
		{StaleAfter, 0, clusterset.MemberStale},
		{time.Hour, 0, clusterset.MemberStale},
		{time.Hour, time.Minute - 1, clusterset.MemberStale},
		{time.Hour, time.Minute, clusterset.MemberLost},
		{never, 0, clusterset.MemberStale},
		{never, time.Minute, clusterset.MemberLost},
	} {
		if got := State(epoch, before(test.here), before(test.elsewhere), time.Minute); got != test.want {
			t.Errorf("silent for %s here, %s elsewhere: %s, want %s", test.here, test.elsewhere, got, test.want)
		}
	}
	if got := State(epoch, time.Time{}, time.Time{}, time.Minute); got != clusterset.MemberConnecting {
		t.Errorf("a member that was never seen is %s", got)
	}
}

func TestWorseStateCounts(t *testing.T) {
	if got := Worse(clusterset.MemberStale, clusterset.MemberLost); got != clusterset.MemberLost {
		t.Errorf("got %s", got)
	}
	if Severity(clusterset.MemberLocal) >= 0 || Severity("Sleepy") >= 0 {
		t.Error("a state that a member cannot be in has a severity")
	}
}

// stepped returns a time as it would have been read had the wall clock, but not the monotonic
// clock, been set ahead before.
func stepped(at time.Time, by time.Duration) time.Time {
	type representation struct {
		wall uint64
		ext  int64
		loc  *time.Location
	}
	(*representation)(unsafe.Pointer(&at)).wall += uint64(by/time.Second) << 30 //nolint:gosec // there is no other way to set a clock
	return at
}

// R375: the wall clock of this process is set ahead by two hours, two seconds after it saw a
// member, and one second after or three seconds after another replica did, according to the
// Lease.
func TestClockIsSetAhead(t *testing.T) {
	here := time.Now()
	now := stepped(here.Add(2*time.Second), 2*time.Hour)
	if silent := now.Sub(here); silent != 2*time.Second || now.Round(0).Sub(here.Round(0)) < time.Hour {
		t.Fatalf("not set ahead: %s", silent)
	}
	for _, later := range []time.Duration{time.Second, -time.Second} {
		if got := State(now, here, here.Round(0).Add(later), DefaultTTL); got != clusterset.MemberConnected {
			t.Errorf("a member that was seen two seconds ago, and elsewhere %s later, is %s", later, got)
		}
	}
}
