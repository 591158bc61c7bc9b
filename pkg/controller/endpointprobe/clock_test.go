// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"testing"
	"testing/synctest"
	"time"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// R375: the clock of mcs-controller is two hours ahead of that of mcs-apiserver. A member that
// another replica sees is not asked because of that, and endpoints that answer are kept.
func TestClockAheadOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ahead = 2 * time.Hour
		w := start(t, inEast, func(w *world) { w.network.alive["10.1.0.1:80"] = true })
		for _, state := range []clustersetv1alpha1.MemberState{clustersetv1alpha1.MemberConnected, clustersetv1alpha1.MemberStale} {
			for range 12 {
				w.show(t, state, time.Now().Add(-ahead))
				time.Sleep(5 * time.Second)
			}
			if got := w.findingsOf("web"); got != string(liveness.Pending) {
				t.Errorf("found %s while a replica sees the member, which is %s", got, state)
			}
		}
		seen := time.Now().Add(-ahead)
		w.show(t, clustersetv1alpha1.MemberStale, seen)
		time.Sleep(time.Minute)
		w.show(t, clustersetv1alpha1.MemberLost, seen)
		time.Sleep(20 * time.Second)
		if got := w.findingsOf("web"); got != string(liveness.Answers) {
			t.Errorf("found %s, although it answers and the member was seen 80 seconds ago", got)
		}
	})
}

// R306, R375: the clock of mcs-controller is two hours behind that of mcs-apiserver. What is
// found is written only when it changes, counts for the silence in which it was found, and is
// not kept for longer than the server says.
func TestClockBehindTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, inEast, func(w *world) { w.network.alive["10.1.0.1:80"] = true })
		time.Sleep(10 * time.Second)
		seen := time.Now().Add(2*time.Hour - time.Minute)
		w.renew(t, seen)
		w.show(t, clustersetv1alpha1.MemberLost, seen)
		time.Sleep(time.Minute)
		if look := w.recordedLook(t); !look.IsPresent() || look.Answers != 1 {
			t.Errorf("recorded is %+v", look)
		}
		before := w.writes()
		time.Sleep(10 * time.Minute)
		if got := w.writes() - before; got > 0 {
			t.Errorf("%d writes although nothing changed", got)
		}
		w.showOverdue(t, seen)
		time.Sleep(2 * period)
		if got := w.findingsOf("web"); got != string(liveness.Unaskable) {
			t.Errorf("found %s when the hour is over", got)
		}
		again := seen.Add(time.Hour)
		w.renew(t, again)
		if look := w.recordedLook(t); look.IsPresent() {
			t.Error("what was found before the member was seen again counts")
		}
		w.show(t, clustersetv1alpha1.MemberLost, again)
		time.Sleep(time.Minute)
		if look := w.recordedLook(t); !look.IsPresent() {
			t.Errorf("what was found in another silence is not recorded, because it is the same: %+v", look)
		}
	})
}
