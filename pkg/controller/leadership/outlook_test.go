// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	clustersetlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/clusterset/v1alpha1"
)

// memberOf returns a member that this replica has not reached since a time, and that
// another one saw last at another.
func memberOf(name string, state clustersetv1alpha1.MemberState, reachable metav1.ConditionStatus, since, seen time.Time) *clustersetv1alpha1.Member {
	return &clustersetv1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: clustersetv1alpha1.MemberStatus{
			State: state, TTLSeconds: 30, LastSeen: ptr.To(metav1.NewTime(seen)),
			Conditions: []metav1.Condition{{Type: clusterset.MemberReachable, Status: reachable, LastTransitionTime: metav1.NewTime(since)}},
		},
	}
}

func TestMembersThatAreSilentHereButNotElsewhere(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	long, short, recently := now.Add(-30*time.Second), now.Add(-29*time.Second), now.Add(-5*time.Second)
	const stale, no = clustersetv1alpha1.MemberStale, metav1.ConditionFalse
	withoutTTL, withoutConditions := memberOf("default", stale, no, long, recently), memberOf("relayed", stale, no, long, recently)
	withoutTTL.Status.TTLSeconds, withoutConditions.Status.Conditions = 0, nil
	neverSeen := memberOf("never", stale, no, long, recently)
	neverSeen.Status.LastSeen = nil
	silent := silentHere([]*clustersetv1alpha1.Member{
		memberOf("silent", stale, no, long, recently),
		memberOf("short", stale, no, short, recently),
		memberOf("nowhere", stale, no, long, long),
		memberOf("connected", clustersetv1alpha1.MemberConnected, metav1.ConditionTrue, long, recently),
		memberOf("lost", clustersetv1alpha1.MemberLost, no, long, recently),
		memberOf("unknown", stale, metav1.ConditionUnknown, long, recently),
		withoutTTL, withoutConditions, neverSeen,
	}, now)
	if names := slices.Sorted(maps.Keys(silent)); strings.Join(names, ",") != "silent" || !silent["silent"].Equal(long) {
		t.Errorf("silent are %v", silent)
	}
}

// server are the members that the server of a replica shows.
type server struct{ cache.Indexer }

func newServer() server {
	return server{cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
}

func (s server) show(t *testing.T, name string, state clustersetv1alpha1.MemberState, since time.Time) {
	t.Helper()
	reachable := metav1.ConditionTrue
	if state == clustersetv1alpha1.MemberStale {
		reachable = metav1.ConditionFalse
	}
	if err := s.Update(memberOf(name, state, reachable, since, time.Now().Add(time.Hour))); err != nil {
		t.Fatal(err)
	}
}

// R159: leadership moves to a replica that reaches a member that the leader does not, but
// not back and forth between replicas that both do not reach some member.
func TestLeadershipMovesToAReplicaThatReachesMoreMembers(t *testing.T) {
	const connected, stale = clustersetv1alpha1.MemberConnected, clustersetv1alpha1.MemberStale
	synctest.Test(t, func(t *testing.T) {
		shared := &lease{}
		servers := map[string]server{"first": newServer(), "second": newServer()}
		replicas := map[string]*replica{}
		for _, name := range []string{"first", "second"} {
			replicas[name] = startWith(t, name, shared, untilCanceled, NewOutlook(clustersetlisters.NewMemberLister(servers[name])).Yield)
			if name == "first" {
				within(t, 2*settling, "first leads", func() bool { return replicas[name].leading.Load() == 1 })
			}
		}
		first, second := replicas["first"], replicas["second"]
		expectTerms := func(what string, wantFirst, wantSecond int32) {
			t.Helper()
			time.Sleep(time.Hour)
			if got, other := first.terms.Load(), second.terms.Load(); got != wantFirst || other != wantSecond {
				t.Errorf("%s: %d terms of first, %d of second, want %d and %d", what, got, other, wantFirst, wantSecond)
			}
		}

		servers["first"].show(t, "m", stale, time.Now())
		servers["second"].show(t, "m", connected, time.Now())
		time.Sleep(25 * time.Second)
		if first.leading.Load() != 1 {
			t.Fatal("leadership moved before the TTL")
		}
		within(t, 15*time.Second, "second takes over", func() bool { return second.leading.Load() == 1 })
		expectTerms("second reaches more members", 1, 1)

		servers["second"].show(t, "n", stale, time.Now())
		servers["first"].show(t, "n", connected, time.Now())
		expectTerms("neither reaches all members", 2, 1)

		// The next silence is another one.
		servers["first"].show(t, "m", connected, time.Now())
		servers["second"].show(t, "n", connected, time.Now())
		expectTerms("both reach all members", 2, 1)
		servers["first"].show(t, "m", stale, time.Now())
		expectTerms("second reaches more members again", 2, 2)

		// Nobody else can lead.
		first.end(t)
		servers["second"].show(t, "n", stale, time.Now())
		within(t, time.Minute, "second yields", func() bool { return second.leading.Load() == 0 })
		within(t, 2*timing.LeaseDuration, "second leads again", func() bool { return second.leading.Load() == 1 })
		expectTerms("nobody else leads", 2, 3)
		second.end(t)
	})
}

// R169: nobody leads whose server does not know what a member exported before.
func TestServerThatDoesNotKnowAMemberIsIncomplete(t *testing.T) {
	known := newServer()
	outlook := NewOutlook(clustersetlisters.NewMemberLister(known))
	for _, reason := range []string{"Reading", clusterset.ReasonUnrecorded, "Synced"} {
		member := memberOf("m", clustersetv1alpha1.MemberConnecting, metav1.ConditionFalse, time.Now(), time.Now())
		member.Status.Conditions = append(member.Status.Conditions, metav1.Condition{Type: clusterset.MemberSynced, Reason: reason})
		if err := known.Update(member); err != nil {
			t.Fatal(err)
		}
		if err := outlook.Complete(); (err != nil) != (reason == clusterset.ReasonUnrecorded) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
