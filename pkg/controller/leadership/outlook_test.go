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
	const no = metav1.ConditionFalse
	withoutTTL, withoutConditions := memberOf("default", stale, no, long, recently), memberOf("conditionless", stale, no, long, recently)
	withoutTTL.Status.TTLSeconds, withoutConditions.Status.Conditions = 0, nil
	neverSeen := memberOf("never", stale, no, long, recently)
	neverSeen.Status.LastSeen = nil
	unread, never := memberOf("unread", clustersetv1alpha1.MemberConnecting, no, long, recently), memberOf("connecting", clustersetv1alpha1.MemberConnecting, no, long, recently)
	unread.Status.Conditions = append(unread.Status.Conditions, metav1.Condition{Type: clusterset.MemberSynced, Reason: clusterset.ReasonOutdated})
	answering := memberOf("answering", stale, no, long, recently) // its endpoints answer, but no replica sees it
	answering.Status.Expired = true
	relayed := memberOf("relayed", stale, no, long, recently)
	relayed.Status.Path = []string{"relayed", "hub"}
	direct := memberOf("direct", stale, metav1.ConditionTrue, long, recently) // another replica reaches it without the hub
	direct.Status.Path = []string{"direct", "hub"}
	direct.Status.Conditions = append(direct.Status.Conditions, metav1.Condition{Type: clusterset.MemberSynced, Reason: clusterset.ReasonReachedElsewhere, LastTransitionTime: metav1.NewTime(long)})
	just := direct.DeepCopy()
	just.Name, just.Status.Conditions[1].LastTransitionTime = "just", metav1.NewTime(short)
	silent := silentHere([]*clustersetv1alpha1.Member{
		memberOf("silent", stale, no, long, recently),
		memberOf("short", stale, no, short, recently),
		memberOf("nowhere", stale, no, long, long),
		memberOf("connected", connected, metav1.ConditionTrue, long, recently),
		memberOf("lost", clustersetv1alpha1.MemberLost, no, long, recently),
		memberOf("unknown", stale, metav1.ConditionUnknown, long, recently),
		withoutTTL, withoutConditions, neverSeen, unread, never, answering, relayed, direct, just,
	}, now)
	if names := slices.Sorted(maps.Keys(silent)); strings.Join(names, ",") != "direct,silent,unread" || !silent["silent"].Equal(long) {
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

const connected, stale = clustersetv1alpha1.MemberConnected, clustersetv1alpha1.MemberStale

// startReplicas starts replicas, each with a server, of which the first leads.
func startReplicas(t *testing.T, names ...string) (servers map[string]server, replicas map[string]*replica) {
	t.Helper()
	servers, replicas = map[string]server{}, map[string]*replica{}
	shared := newLease()
	for i, name := range names {
		servers[name] = newServer()
		replicas[name] = startWith(t, name, shared, untilCanceled, NewOutlook(clustersetlisters.NewMemberLister(servers[name])), nil)
		if i == 0 {
			within(t, 2*settling, name+" leads", func() bool { return replicas[name].leading.Load() == 1 })
		}
	}
	return servers, replicas
}

// R159: leadership moves to a replica that reaches a member that the leader does not.
// Replicas that both do not reach some member lead in turns, ever longer.
func TestLeadershipMovesToAReplicaThatReachesMoreMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, replicas := startReplicas(t, "first", "second")
		first, second := replicas["first"], replicas["second"]
		var before [2]int32
		expectTerms := func(what string, wantFirst, wantSecond int32) {
			t.Helper()
			time.Sleep(time.Hour)
			now := [2]int32{first.terms.Load(), second.terms.Load()}
			if got, other := now[0]-before[0], now[1]-before[1]; got != wantFirst || other != wantSecond {
				t.Errorf("%s: %d terms of first, %d of second, want %d and %d", what, got, other, wantFirst, wantSecond)
			}
			before = now
		}

		servers["first"].show(t, "m", stale, time.Now())
		servers["second"].show(t, "m", connected, time.Now())
		time.Sleep(25 * time.Second)
		if first.leading.Load() != 1 {
			t.Fatal("leadership moved before the TTL")
		}
		within(t, 15*time.Second, "second takes over", func() bool { return second.leading.Load() == 1 })
		expectTerms("second reaches more members", 1, 1)

		// The terms of both last 1, 2, 4, 8 and then 10 minutes.
		servers["second"].show(t, "n", stale, time.Now())
		servers["first"].show(t, "n", connected, time.Now())
		expectTerms("neither reaches all members", 6, 5)
		expectTerms("neither reaches all members for long", 3, 3)

		// The next silence is another one.
		servers["first"].show(t, "m", connected, time.Now())
		servers["second"].show(t, "n", connected, time.Now())
		time.Sleep(time.Minute)
		leads, follows, other := "first", "second", second
		if second.leading.Load() == 1 {
			leads, follows, other = "second", "first", first
		}
		servers[leads].show(t, "o", stale, time.Now())
		servers[follows].show(t, "o", connected, time.Now())
		within(t, time.Minute, follows+" takes over", func() bool { return other.leading.Load() == 1 })

		// Nobody else can lead.
		replicas[leads].end(t)
		servers[follows].show(t, "p", stale, time.Now())
		within(t, time.Minute, follows+" yields", func() bool { return other.leading.Load() == 0 })
		within(t, 3*timing.LeaseDuration, follows+" leads again", func() bool { return other.leading.Load() == 1 })
		other.end(t)
	})
}

// R159: a replica that misses a member, and leads because the one that reaches it was not
// ready for a while, yields again.
func TestLeadershipReturnsToTheReplicaThatReachesMoreMembersAfterItsRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, replicas := startReplicas(t, "first", "second")
		first, second := replicas["first"], replicas["second"]
		defer first.end(t)
		defer second.end(t)
		servers["first"].show(t, "m", stale, time.Now())
		servers["second"].show(t, "m", connected, time.Now())
		within(t, time.Minute, "second takes over", func() bool { return second.leading.Load() == 1 })
		time.Sleep(time.Hour)

		second.ready.Store(false) // its server restarts
		within(t, time.Minute, "first leads meanwhile", func() bool { return first.leading.Load() == 1 })
		second.ready.Store(true)
		within(t, 2*minTerm, "second leads again", func() bool { return second.leading.Load() == 1 })

		// It does so also if second is not ready when first yields, but not at once.
		second.ready.Store(false)
		within(t, time.Minute, "first leads meanwhile", func() bool { return first.leading.Load() == 1 })
		terms := first.terms.Load()
		time.Sleep(time.Hour)
		if got := first.terms.Load() - terms; got < 5 || got > 7 {
			t.Errorf("first yielded %d times in an hour in which nobody else could lead", got)
		}
		second.ready.Store(true)
		within(t, maxTerm+time.Minute, "second leads again", func() bool { return second.leading.Load() == 1 })
	})
}

// R159: a member that responds to one replica at a time does not make them take turns with
// every silence.
func TestMemberThatRespondsToOneReplicaAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers, replicas := startReplicas(t, "first", "second")
		for _, replica := range replicas {
			defer replica.end(t)
		}
		for i := range 120 {
			names := []string{"first", "second"}
			servers[names[i%2]].show(t, "m", stale, time.Now())
			servers[names[1-i%2]].show(t, "m", connected, time.Now())
			time.Sleep(time.Minute)
		}
		if terms := replicas["first"].terms.Load() + replicas["second"].terms.Load(); terms > 40 {
			t.Errorf("%d terms in two hours", terms)
		}
	})
}

// R159: of several replicas, one leads that reaches all members, however the former leader
// ended.
func TestReplicaThatMissesAMemberLeavesTheLeaseToOthers(t *testing.T) {
	for name, end := range map[string]func(*replica){
		"released": func(leader *replica) { leader.ready.Store(false) },
		"expired":  func(leader *replica) { leader.connected.Store(false) },
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 { // the order of attempts is random
				synctest.Test(t, func(t *testing.T) {
					servers, replicas := startReplicas(t, "first", "second", "third")
					for _, replica := range replicas {
						defer replica.end(t)
					}
					servers["second"].show(t, "m", stale, time.Now())
					time.Sleep(10 * time.Minute)
					end(replicas["first"])
					within(t, 2*timing.LeaseDuration, "third leads", func() bool { return replicas["third"].leading.Load() == 1 })
					if replicas["second"].terms.Load() > 0 {
						t.Error("second led before")
					}
				})
			}
		})
	}
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
		relayed := member.DeepCopy()
		relayed.Status.Path = []string{"m", "hub"}
		if err := known.Update(relayed); err != nil {
			t.Fatal(err)
		}
		if err := outlook.Complete(); err != nil {
			t.Errorf("%s at its hub: %v", reason, err)
		}
	}
}
