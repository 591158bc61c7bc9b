// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package liveness

import (
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestStateDependsOnTheLastContact(t *testing.T) {
	for _, test := range []struct {
		silent time.Duration
		want   clusterset.MemberState
	}{
		{0, clusterset.MemberConnected},
		{StaleAfter - 1, clusterset.MemberConnected},
		{StaleAfter, clusterset.MemberStale},
		{time.Minute - 1, clusterset.MemberStale},
		{time.Minute, clusterset.MemberLost},
	} {
		if got := State(epoch.Add(test.silent), epoch, time.Minute); got != test.want {
			t.Errorf("after %s: %s, want %s", test.silent, got, test.want)
		}
	}
	if got := State(epoch, time.Time{}, time.Minute); got != clusterset.MemberConnecting {
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
