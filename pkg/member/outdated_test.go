// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
)

// expectSynced checks the reason of the condition Synced of member b.
func (f *fixture) expectSynced(t *testing.T, when, want string) {
	t.Helper()
	synced := meta.FindStatusCondition(f.Entry("b").Status.Conditions, clusterset.MemberSynced)
	if synced == nil || synced.Reason != want {
		t.Errorf("%s: Synced is %+v, want reason %s", when, synced, want)
	}
}

// R159: what is known of a member that only another replica reaches is outdated, from when
// it is stale here until this replica has caught up, or no replica has reached the member
// for its TTL.
func TestMemberThatOnlyAnotherReplicaReachesIsOutdated(t *testing.T) {
	w, b := exporting(t, nil)
	seen := &sighting.Sighting{Member: "b", UID: "uid-b"}
	w.silence(b, liveness.StaleAfter-feed.ProbeInterval, seen)
	w.expectSynced(t, "not stale yet", "Synced")
	w.silence(b, feed.ProbeInterval, seen)
	w.expectSynced(t, "stale", clusterset.ReasonOutdated)
	w.silence(b, time.Hour, seen)
	w.expectSynced(t, "stale for long", clusterset.ReasonOutdated)
	b.ReadFailed(exports.Services, errors.New("no route to host"))
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, "Unknown", clusterset.ReasonOutdated, "no route to host")
	w.silence(b, liveness.DefaultTTL, nil)
	w.expectSynced(t, "lost", "Unreachable")
	w.silence(b, feed.ProbeInterval, seen)
	w.expectSynced(t, "seen by another replica again", clusterset.ReasonOutdated)
	w.silence(b, liveness.DefaultTTL, nil)
	w.probe(b, ownEntry("b", withExports(1)))
	w.expectSynced(t, "reached again, not read", clusterset.ReasonOutdated)
	w.replace(t, b, exports.Services, exported("b", "web"))
	w.expectSynced(t, "Services read", clusterset.ReasonOutdated)
	w.replace(t, b, exports.EndpointSlices, exportedSlice("b", "web", "web-1"))
	w.expectSynced(t, "read", "Synced")

	// One that no replica reaches is not outdated: there is nothing newer.
	w.silence(b, liveness.StaleAfter, nil)
	w.expectSynced(t, "stale everywhere", "Synced")
}

// R159: what was recorded of a member is outdated after a restart until the member was
// read, or no replica has reached it for its TTL.
func TestMemberIsOutdatedAfterARestartUntilItWasRead(t *testing.T) {
	recorded := newHost()
	w, _ := exporting(t, recorded)
	w.persist(t)
	after := restart(t, recorded, time.Second)
	b := after.add("b")
	after.expectSynced(t, "recalled", clusterset.ReasonOutdated)
	after.probe(b, ownEntry("b", withExports(1)))
	after.replace(t, b, exports.Services, exported("b", "web"))
	after.expectSynced(t, "Services read", clusterset.ReasonOutdated)
	after.replace(t, b, exports.EndpointSlices, exportedSlice("b", "web", "web-1"))
	after.expectSynced(t, "read", "Synced")

	after = restart(t, recorded, time.Second)
	b = after.add("b")
	after.silence(b, liveness.DefaultTTL, nil)
	after.expectSynced(t, "not reached by any replica", "Reading")

	recorded = newHost()
	recorded.leases["b"] = sighting.Sighting{Member: "b", UID: "uid-b"}
	after = restart(t, recorded, time.Second)
	b = after.add("b")
	after.silence(b, maxUnrecorded-feed.ProbeInterval, &sighting.Sighting{Member: "b", UID: "uid-b"})
	after.expectSynced(t, "not recorded", clusterset.ReasonUnrecorded)
	after.silence(b, time.Hour, &sighting.Sighting{Member: "b", UID: "uid-b"})
	after.expectSynced(t, "not recorded, and reached by another replica", clusterset.ReasonOutdated)
	after.silence(b, liveness.DefaultTTL-feed.ProbeInterval, nil)
	after.expectSynced(t, "not recorded, and not reached by any replica", clusterset.ReasonOutdated)
	after.silence(b, feed.ProbeInterval, nil)
	after.expectSynced(t, "not recorded, and not reached by any replica for its TTL", "Reading")
}

// R159: a member that is lost to all replicas is not outdated, even if its endpoints are
// kept: what was deleted of it is created again.
func TestLostMemberIsNotOutdated(t *testing.T) {
	w, b := exporting(t, nil)
	w.config.LostPolicy = clusterset.LostPolicyKeep
	w.silence(b, liveness.DefaultTTL, &sighting.Sighting{Member: "b", UID: "uid-b"})
	w.expectSynced(t, "seen elsewhere", clusterset.ReasonOutdated)
	w.silence(b, liveness.DefaultTTL, nil)
	w.expectSynced(t, "lost", "Synced")

	recorded := newHost()
	recorded.leases["b"] = sighting.Sighting{Member: "b", UID: "uid-b"}
	after := restart(t, recorded, time.Second)
	after.config.LostPolicy = clusterset.LostPolicyKeep
	b = after.add("b")
	after.silence(b, 2*liveness.DefaultTTL, nil)
	after.expectSynced(t, "not recorded, and lost", "Reading")
}

// R427: endpoints of a member were withdrawn because it was lost. What is known of them is as
// old as the silence: they do not return before the member was read.
func TestMemberThatIsBackIsOutdatedUntilItWasRead(t *testing.T) {
	w, b := exporting(t, nil)
	w.silence(b, liveness.DefaultTTL-feed.ProbeInterval, nil)
	w.probe(b, ownEntry("b", withExports(1)))
	w.expectSynced(t, "back before it was lost", "Synced")
	w.silence(b, 2*time.Hour, nil)
	w.probe(b, ownEntry("b", withExports(1)))
	w.expectShown(t, "b", connected, false)
	w.expectSynced(t, "back", clusterset.ReasonOutdated)
	if !b.feed.(*fakeFeed).reread {
		t.Error("it is not read again")
	}
	w.clock.Step(feed.ProbeInterval)
	w.probe(b, ownEntry("b", withExports(1)))
	w.replace(t, b, exports.Services, exported("b", "web"))
	w.expectSynced(t, "Services read", clusterset.ReasonOutdated)
	w.replace(t, b, exports.EndpointSlices, exportedSlice("b", "web", "web-1"))
	w.expectSynced(t, "read", "Synced")

	// If it cannot be read, it is believed after a minute.
	w.silence(b, liveness.DefaultTTL, nil)
	w.probe(b, ownEntry("b", withExports(1)))
	b.ReadFailed(exports.EndpointSlices, errors.New("forbidden"))
	for range maxBehind / feed.ProbeInterval {
		w.expectSynced(t, "back, but forbidden", clusterset.ReasonOutdated)
		w.clock.Step(feed.ProbeInterval)
		w.probe(b, ownEntry("b", withExports(1)))
	}
	if synced := meta.FindStatusCondition(w.Entry("b").Status.Conditions, clusterset.MemberSynced); synced.Reason == clusterset.ReasonOutdated {
		t.Errorf("Synced is %+v", synced)
	}
}

// R427: the first probe of a member that is back may succeed between the first lists of the two
// kinds. Both are read again, so that it does not count as outdated for a minute.
func TestMemberThatIsBackIsReadAgainIfOneKindWasReadBefore(t *testing.T) {
	for _, first := range []exports.Kind{exports.Services, exports.EndpointSlices} {
		recorded := newHost()
		w, _ := exporting(t, recorded)
		w.persist(t)
		after := restart(t, recorded, time.Second)
		b := after.add("b")
		after.silence(b, 2*liveness.DefaultTTL, nil)
		read := map[exports.Kind]func(){
			exports.Services:       func() { after.replace(t, b, exports.Services, exported("b", "web")) },
			exports.EndpointSlices: func() { after.replace(t, b, exports.EndpointSlices, exportedSlice("b", "web", "web-1")) },
		}
		read[first]()
		after.clock.Step(time.Second)
		after.probe(b, ownEntry("b", withExports(1)))
		if !b.feed.(*fakeFeed).reread {
			t.Errorf("%s were read before: nothing is read again", first)
		}
		for _, again := range read {
			again()
		}
		after.expectSynced(t, "read", "Synced")
	}
}

// R427: a hub is back that was lost. The clusters that it relays are not, until it was read.
func TestClustersAreBackWhenTheirHubWasRead(t *testing.T) {
	w, h := relaying(t)
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
	w.silence(h, 2*time.Hour, nil)
	for range 2 {
		w.clock.Step(feed.ProbeInterval)
		w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
		w.expectShown(t, "h", connected, false)
		w.expectShown(t, "x", clusterset.MemberLost, true)
		if !w.Entry("x").Status.Overdue {
			t.Error("x is not overdue any more")
		}
	}
	w.replace(t, h, exports.Services, exported("x", "web", "x"))
	w.replace(t, h, exports.EndpointSlices, exportedSlice("x", "web", "web-1", "x"))
	if !h.feed.ProbePending() {
		t.Error("the hub is not asked when it was read")
	}
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
	w.expectShown(t, "x", connected, false)
}

// R427: a cluster behind a hub was lost, and is back. The hub has not read it yet, and still
// relays what it exported before. It is believed when the hub has, or after a minute.
func TestClusterIsBackWhenItsHubHasReadIt(t *testing.T) {
	outdated := func(s *clustersetv1alpha1.MemberStatus) {
		s.Synced, s.Conditions = false, []metav1.Condition{{Type: clusterset.MemberSynced, Status: metav1.ConditionUnknown, Reason: clusterset.ReasonOutdated}}
	}
	for name, test := range map[string]struct {
		lost time.Duration
		read bool
	}{"read": {2 * time.Hour, true}, "not read": {2 * time.Hour, false}, "it was not lost": {0, false}} {
		t.Run(name, func(t *testing.T) {
			w, h := relaying(t)
			w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
			say := func(state clustersetv1alpha1.MemberState, changes ...func(*clustersetv1alpha1.MemberStatus)) {
				w.clock.Step(feed.ProbeInterval)
				entry := relayedEntry("x", append([]func(*clustersetv1alpha1.MemberStatus){withExports(1)}, changes...)...)
				entry.Status.State = state
				w.probe(h, ownEntry("h"), entry)
			}
			for range test.lost / feed.ProbeInterval {
				say(clustersetv1alpha1.MemberLost)
			}
			want := map[bool]clusterset.MemberState{true: clusterset.MemberLost, false: connected}[test.lost > 0]
			for range maxBehind / feed.ProbeInterval {
				say(clustersetv1alpha1.MemberConnected, outdated)
				w.expectShown(t, "x", want, want == clusterset.MemberLost)
				if got := w.Entry("x").Status; got.Overdue != (test.lost > 0) {
					t.Errorf("overdue is %t", got.Overdue)
				}
			}
			if test.read {
				say(clustersetv1alpha1.MemberConnected)
				w.expectShown(t, "x", connected, false)
			}
			for range 2 { // it is not lost again because of that
				say(clustersetv1alpha1.MemberConnected, outdated)
				w.expectShown(t, "x", connected, false)
			}
		})
	}
}

// A member that another replica saw last by chance is not outdated.
func TestMemberThatDiesIsNotOutdated(t *testing.T) {
	w, b := exporting(t, nil)
	w.clock.Step(2 * time.Second)
	w.observeSighting(sighting.Sighting{Member: "b", UID: "uid-b", At: w.clock.Now()})
	w.silence(b, liveness.StaleAfter, nil)
	w.expectSynced(t, "silent", "Synced")
}

// A watch that outlived a silence may be late. Everything is read again, once.
func TestMemberIsReadAgainAfterASilence(t *testing.T) {
	w, b := exporting(t, nil)
	w.silence(b, time.Minute, &sighting.Sighting{Member: "b", UID: "uid-b"})
	read := &b.feed.(*fakeFeed).reread
	if *read {
		t.Error("read again before it is reached")
	}
	w.probe(b, ownEntry("b", withExports(1)))
	if !*read {
		t.Error("not read again")
	}
	*read = false
	w.probe(b, ownEntry("b", withExports(1)))
	if *read {
		t.Error("read again with every probe")
	}
}

// R159: a member that this replica reaches is not outdated for long, whatever it does:
// what it withdraws is withdrawn.
func TestMemberIsNotOutdatedForLong(t *testing.T) {
	seen := &sighting.Sighting{Member: "b", UID: "uid-b"}
	for name, step := range map[string]func(w *fixture, b *receiver, i int){
		"EndpointSlices cannot be read": func(w *fixture, b *receiver, _ int) {
			w.probe(b, ownEntry("b", withExports(1)))
			b.ReadFailed(exports.EndpointSlices, errors.New("forbidden"))
			w.replace(t, b, exports.Services, exported("b", "web"))
		},
		"probes fail now and then": func(w *fixture, b *receiver, i int) {
			if i%6 == 5 {
				b.Probed(nil, errors.New("503"))
			} else {
				w.probe(b, ownEntry("b", withExports(1)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, b := exporting(t, nil)
			w.silence(b, 2*liveness.StaleAfter, seen)
			for i := range int(maxBehind / feed.ProbeInterval) {
				w.expectSynced(t, "behind", clusterset.ReasonOutdated)
				w.clock.Step(feed.ProbeInterval)
				step(w, b, i)
				w.tick()
			}
			w.clock.Step(feed.ProbeInterval)
			w.probe(b, ownEntry("b", withExports(1)))
			if synced := meta.FindStatusCondition(w.Entry("b").Status.Conditions, clusterset.MemberSynced); synced.Reason == clusterset.ReasonOutdated {
				t.Errorf("Synced is %+v", synced)
			}
		})
	}
}

// A member that is new, or another cluster with the same ID, is not outdated.
func TestNewMemberIsNotOutdated(t *testing.T) {
	w := newFixture(t, nil)
	b := w.join("b")
	w.observeSighting(sighting.Sighting{Member: "b", UID: "uid-b", At: w.clock.Now()})
	w.expectSynced(t, "joined", "Reading")
	w.replace(t, b, exports.Services)
	w.replace(t, b, exports.EndpointSlices)
	w.silence(b, liveness.StaleAfter, &sighting.Sighting{Member: "b", UID: "uid-other"})
	w.expectSynced(t, "another cluster was seen", "Synced")
}
