// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/memory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
)

// silence lets time pass in which this replica does not reach a member, and another
// one does, unless seen is nil.
func (f *fixture) silence(r *receiver, passed time.Duration, seen *sighting.Sighting) {
	for end := f.clock.Now().Add(passed); f.clock.Now().Before(end); {
		f.clock.Step(feed.ProbeInterval)
		r.Probed(nil, context.DeadlineExceeded)
		if seen != nil {
			seen.At = f.clock.Now()
			f.observeSighting(*seen)
		}
		f.tick()
	}
}

// R300: replicas that lose a member together agree about its state, although one of them saw
// it last by chance.
func TestMemberThatAllReplicasLoseIsNotSeenElsewhere(t *testing.T) {
	w, b := exporting(t, nil)
	w.clock.Step(2 * time.Second)
	w.observeSighting(sighting.Sighting{Member: "b", UID: "uid-b", At: w.clock.Now()})
	unavailable := apierrors.NewServiceUnavailable("the server is currently unable to handle the request")
	for end := w.clock.Now().Add(liveness.DefaultTTL - feed.ProbeInterval); w.clock.Now().Before(end); {
		w.clock.Step(feed.ProbeInterval)
		b.Probed(nil, unavailable)
		w.tick()
	}
	entry := w.Entry("b")
	w.expectShown(t, "b", clusterset.MemberUnavailable, false)
	if condition := meta.FindStatusCondition(entry.Status.Conditions, clusterset.MemberReachable); strings.Contains(condition.Message, "another replica") {
		t.Errorf("message is %q", condition.Message)
	}
}

// Sightings and looks of clusters that are no longer members are forgotten with their
// Leases, those of members are not.
func TestLeasesOfFormerMembersAreForgotten(t *testing.T) {
	w, _ := exporting(t, nil)
	for _, name := range []string{"b", "former"} {
		lease := sighting.Record(nil, sighting.Sighting{Member: name, UID: types.UID("uid-" + name), At: w.clock.Now()}, 60)
		w.leaseChanged(lease)
		w.leaseDeleted(cache.DeletedFinalStateUnknown{Obj: lease})
	}
	_, sighted := w.sightings["former"]
	_, observed := w.roster.observed["former"]
	if sighted || observed {
		t.Error("a former member is not forgotten")
	}
	if _, ok := w.sightings["b"]; !ok {
		t.Error("a member is forgotten")
	}
}

// R168: a member that another replica reaches is stale, not lost, and lost only when
// no replica has reached it for its TTL.
func TestMemberThatAnotherReplicaReachesIsNotLost(t *testing.T) {
	w, b := exporting(t, nil)
	seen := &sighting.Sighting{Member: "b", UID: "uid-b"}
	w.silence(b, time.Hour, seen)
	if got := w.Entry("b").Status; got.State != clusterset.MemberStale || !got.LastSeen.Time.Equal(w.clock.Now()) {
		t.Errorf("it is %s, last seen %s", got.State, got.LastSeen)
	}
	expectCondition(t, w.Entry("b"), clusterset.MemberReachable, "False", "Unreachable", "another replica of mcs-apiserver has seen it since")
	if w.exporters("web") != "b" {
		t.Error("its exports are gone")
	}
	w.silence(b, liveness.DefaultTTL-feed.ProbeInterval, nil)
	if got := w.Entry("b").Status.State; got != clusterset.MemberStale {
		t.Errorf("it is %s before its TTL", got)
	}
	w.notified()
	w.silence(b, feed.ProbeInterval, nil)
	if got := w.Entry("b").Status.State; got != clusterset.MemberLost || w.notified() != "ns/web" {
		t.Errorf("it is %s when no replica has reached it", got)
	}
	seen.At = w.clock.Now()
	w.observeSighting(*seen)
	if got := w.Entry("b").Status.State; got != clusterset.MemberStale || w.notified() != "ns/web" {
		t.Errorf("it is %s when another replica reached it again", got)
	}
	w.probe(b, ownEntry("b", withExports(1)))
	if got := w.Entry("b").Status.State; got != connected {
		t.Errorf("it is %s when this replica reached it again", got)
	}
}

// R168: the sighting of another cluster with the same ID says nothing, nor does one
// that is older, and nothing was seen in the future.
func TestOnlySightingsOfTheMemberCount(t *testing.T) {
	for name, seen := range map[string]*sighting.Sighting{
		"of another cluster": {Member: "b", UID: "uid-other"},
		"of another member":  {Member: "c", UID: "uid-b"},
		"without a UID":      {Member: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			w, b := exporting(t, nil)
			w.silence(b, liveness.DefaultTTL, seen)
			if got := w.Entry("b").Status.State; got != clusterset.MemberLost {
				t.Errorf("it is %s", got)
			}
		})
	}
	w, b := exporting(t, nil)
	w.observeSighting(sighting.Sighting{Member: "b", UID: "uid-b", At: w.clock.Now().Add(-time.Hour)})
	if got := w.Entry("b").Status; !got.LastSeen.Time.Equal(w.clock.Now()) {
		t.Errorf("it was last seen %s after an older sighting", got.LastSeen)
	}
	w.observeSighting(sighting.Sighting{Member: "b", UID: "uid-b", At: w.clock.Now().Add(time.Hour)})
	if got := w.Entry("b").Status; !got.LastSeen.Time.Equal(w.clock.Now()) {
		t.Errorf("it was last seen %s, in the future", got.LastSeen)
	}
	w.silence(b, liveness.DefaultTTL, nil)
	if got := w.Entry("b").Status.State; got != clusterset.MemberLost {
		t.Errorf("it is %s", got)
	}
}

// R168: a replica that starts while another one runs knows what that one knows.
func TestSightingsAreKnownAfterARestart(t *testing.T) {
	recorded := newHost()
	w, b := exporting(t, recorded)
	h := w.join("h", hubFor("*"))
	seen := metav1.NewTime(w.clock.Now())
	entry := relayedEntry("x")
	entry.Status.State, entry.Status.LastSeen = clustersetv1alpha1.MemberStale, &seen
	w.probe(h, ownEntry("h"), entry)
	w.silence(b, liveness.DefaultTTL, nil)
	w.probe(h, ownEntry("h"), entry)
	w.replace(t, h, exports.Services)
	w.persist(t)
	after := restart(t, recorded, liveness.DefaultTTL)
	silent := after.add("b")
	after.add("h", hubFor("*"))
	if got := after.Entry("b").Status.State; got != clusterset.MemberLost {
		t.Errorf("a member that was lost is %s", got)
	}
	if got := after.Entry("h").Status; got.State != connected || !got.LastSeen.Time.Equal(w.clock.Now()) {
		t.Errorf("a member that was connected is %s, last seen %s", got.State, got.LastSeen)
	}
	if got := after.Entry("x").Status; got.LastSeen == nil || !got.LastSeen.Time.Equal(seen.Time) {
		t.Errorf("a relayed cluster was last seen %s", got.LastSeen)
	}
	after.silence(silent, feed.ProbeInterval, &sighting.Sighting{Member: "b", UID: "uid-b"})
	if got := after.Entry("b").Status.State; got != clusterset.MemberStale {
		t.Errorf("a lost member that another replica reaches is %s", got)
	}
	after.persist(t)
	if recorded.leases["b"].Lost {
		t.Error("it is still recorded as lost")
	}
}

// R160: after a restart, another replica may know more of a member only if it sees the
// member, and this one has not read it and cannot.
func TestMembersThatAreReadElsewhere(t *testing.T) {
	for name, test := range map[string]struct {
		seen   sighting.Sighting
		silent time.Duration
		change func(*fixture, *receiver)
		want   bool
	}{
		"seen":                {seen: sighting.Sighting{Member: "b", UID: "uid-b"}, want: true},
		"not seen for long":   {seen: sighting.Sighting{Member: "b", UID: "uid-b"}, silent: liveness.DefaultTTL},
		"another cluster":     {seen: sighting.Sighting{Member: "b", UID: "uid-other"}},
		"another member":      {seen: sighting.Sighting{Member: "c", UID: "uid-b"}},
		"seen here, not read": {seen: sighting.Sighting{Member: "b", UID: "uid-b"}, change: func(w *fixture, b *receiver) { w.probe(b, ownEntry("b", withExports(1))) }},
		"read here": {seen: sighting.Sighting{Member: "b", UID: "uid-b"}, change: func(w *fixture, b *receiver) {
			w.probe(b, ownEntry("b", withExports(1)))
			w.replace(t, b, exports.Services, exported("b", "web"))
			w.replace(t, b, exports.EndpointSlices, exportedSlice("b", "web", "web-1"))
			w.silence(b, liveness.StaleAfter, &sighting.Sighting{Member: "b", UID: "uid-b"})
		}},
		"refused": {seen: sighting.Sighting{Member: "b", UID: "uid-b"}, change: func(_ *fixture, b *receiver) {
			b.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "other", ClaimedAt: epoch})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			recorded := newHost()
			w, _ := exporting(t, recorded)
			w.persist(t)
			after := restart(t, recorded, time.Hour)
			b := after.add("b")
			if after.ReadElsewhere() {
				t.Error("the sighting of this replica before it restarted counts")
			}
			test.seen.At = after.clock.Now()
			after.observeSighting(test.seen)
			after.clock.Step(test.silent)
			if test.change != nil {
				test.change(after, b)
			}
			if got := after.ReadElsewhere(); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

// R302: all replicas were down for two hours. The hour for which endpoints are kept begins when
// the first one starts, for all of them: the second one starts when the member has been lost.
func TestHourDoesNotIncludeDowntime(t *testing.T) {
	recorded := newHost()
	w, _ := exporting(t, recorded)
	h := w.join("h", hubFor("*"))
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)), relayedEntry("y", withExports(1)))
	w.replace(t, h, exports.Services, exported("x", "web", "x"))
	w.replace(t, h, exports.EndpointSlices)
	w.persist(t)
	delete(recorded.leases, "y")
	expect := func(f *fixture, when string, state clusterset.MemberState, overdue bool) {
		t.Helper()
		for _, name := range []string{"b", "h", "x", "y"} {
			if got := f.Entry(name).Status; got.State != state || got.Overdue != overdue {
				t.Errorf("%s: %s is %s, overdue %t; want %s and %t", when, name, got.State, got.Overdue, state, overdue)
			}
		}
	}
	silence := func(f *fixture, h, b *receiver, passed time.Duration) {
		for end := f.clock.Now().Add(passed); f.clock.Now().Before(end); {
			f.silence(h, feed.ProbeInterval, nil)
			b.Probed(nil, context.DeadlineExceeded)
		}
	}
	first := restart(t, recorded, 2*time.Hour)
	b, h := first.add("b"), first.add("h", hubFor("*"))
	expect(first, "started", connected, false)
	silence(first, h, b, liveness.DefaultTTL)
	expect(first, "silent for the TTL", clusterset.MemberLost, false)
	first.persist(t)
	for _, seen := range recorded.leases { // as it hears of what it recorded
		first.observeSighting(seen)
	}
	expect(first, "recorded as lost", clusterset.MemberLost, false)
	second := restart(t, recorded, 2*time.Hour+10*time.Minute)
	second.add("b")
	second.add("h", hubFor("*"))
	expect(second, "started later", clusterset.MemberLost, false)
	silence(first, h, b, liveness.MaxStale-feed.ProbeInterval)
	expect(first, "before the hour is over", clusterset.MemberLost, false)
	silence(first, h, b, feed.ProbeInterval)
	expect(first, "when the hour is over", clusterset.MemberLost, true)
	second.clock.SetTime(first.clock.Now())
	second.tick()
	expect(second, "when the hour is over", clusterset.MemberLost, true)
}

// R302, R376: a hub saw a cluster a minute before this server started, after two hours of
// downtime, and says that it was lost, or that it has not reached it.
func TestHourOfARelayedClusterDoesNotIncludeDowntime(t *testing.T) {
	for said, want := range map[clustersetv1alpha1.MemberState]clusterset.MemberState{
		clustersetv1alpha1.MemberLost: clusterset.MemberLost, clustersetv1alpha1.MemberConnecting: connected,
	} {
		recorded := newHost()
		w := newFixture(t, recorded)
		h := w.join("h", hubFor("*"))
		w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
		w.replace(t, h, exports.Services, exported("x", "web", "x"))
		w.replace(t, h, exports.EndpointSlices)
		w.persist(t)
		after := restart(t, recorded, 2*time.Hour)
		h = after.add("h", hubFor("*"))
		seen := metav1.NewTime(after.clock.Now().Add(-61 * time.Second))
		entry := relayedEntry("x", withExports(1))
		entry.Status.State, entry.Status.LastSeen = said, &seen
		after.probe(h, ownEntry("h"), entry)
		if got := after.Entry("x").Status; got.State != want || got.Overdue {
			t.Errorf("the hub says %s: x is %s, overdue %t, want %s", said, got.State, got.Overdue, want)
		}
	}
}

// R165: a replica that was cut off from a member does not record what it knew before: not
// when it is elected, nor when it reaches the member again, until its watch has begun
// anew or had the time to catch up.
func TestReplicaThatWasCutOffRecordsNothingOutdated(t *testing.T) {
	for name, catchUpBy := range map[string]func(*fixture, *receiver){
		"list": func(w *fixture, b *receiver) {
			w.replace(t, b, exports.Services, exported("b", "web"), exported("b", "newest"))
		},
		"watch": func(_ *fixture, b *receiver) { b.ReadFailed(exports.Services, nil) },
		"time": func(w *fixture, b *receiver) {
			for range catchUp / feed.ProbeInterval {
				w.clock.Step(feed.ProbeInterval)
				w.probe(b, ownEntry("b", withExports(1)))
				w.tick()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			recorded := newHost()
			cutOff, b := exporting(t, recorded)
			cutOff.persist(t)
			other, same := exporting(t, recorded)
			cutOff.silence(b, time.Hour, &sighting.Sighting{Member: "b", UID: "uid-b"})
			other.upsert(t, same, exported("b", "new"))
			other.persist(t)
			recordedNow := func() string {
				t.Helper()
				must(t, cutOff.recorder.TakeOver(t.Context()))
				cutOff.persist(t)
				return names(loaded(t, recorded)["b"])
			}
			if got := recordedNow(); got != "new.b,web.b" {
				t.Errorf("recorded are %q by a replica that is cut off", got)
			}
			cutOff.probe(b, ownEntry("b", withExports(2)))
			cutOff.upsert(t, b, exported("b", "newest"))
			if got := recordedNow(); got != "new.b,web.b" {
				t.Errorf("recorded are %q by a replica that has not caught up", got)
			}
			catchUpBy(cutOff, b)
			if got := recordedNow(); got != "newest.b,web.b" {
				t.Errorf("recorded are %q by a replica that has caught up", got)
			}
		})
	}
}

// R165: a replica that misses a member that another one reaches does not record for long.
func TestReplicaThatIsCutOffHandsOver(t *testing.T) {
	w, b := exporting(t, nil)
	handedOver := make(chan struct{})
	w.recorder = memory.NewRecorder(w.host, func(ctx context.Context, lead func(context.Context)) {
		lead(ctx)
		close(handedOver)
	}, w.clock)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.recorder.Run(ctx) })
	defer running.Wait()
	defer cancel()
	missed := func() bool { return b.peer.missedLocked(w.clock.Now(), w.config.TTL) }
	seen := &sighting.Sighting{Member: "b", UID: "uid-b"}
	w.silence(b, liveness.DefaultTTL-feed.ProbeInterval, seen)
	if missed() {
		t.Error("it is missed before its TTL")
	}
	eventually(t, "it hands over", func() bool {
		w.silence(b, feed.ProbeInterval, seen)
		select {
		case <-handedOver:
			return true
		default:
			return false
		}
	})
	w.silence(b, liveness.DefaultTTL, nil)
	if missed() {
		t.Error("it is missed although no replica reaches it")
	}
}

// R165: it does not hand over when a member is lost to all replicas at the same time.
func TestLostMemberIsNotMissed(t *testing.T) {
	w, b := exporting(t, nil)
	w.silence(b, liveness.DefaultTTL-feed.ProbeInterval, nil)
	w.clock.Step(feed.ProbeInterval)
	if b.peer.missedLocked(w.clock.Now(), w.config.TTL) {
		t.Error("it is missed although no replica reaches it")
	}
}

// R375: the clock of another replica is two hours ahead. It saw the member last when this one
// did, and the Lease is written again with the same sighting, because of something else.
func TestOneSightingInTheFutureCountsOnce(t *testing.T) {
	w, b := exporting(t, nil)
	seen := sighting.Sighting{Member: "b", UID: "uid-b", At: w.clock.Now().Add(2 * time.Hour)}
	for end := w.clock.Now().Add(2 * liveness.DefaultTTL); w.clock.Now().Before(end); {
		w.silence(b, 2*feed.ProbeInterval, nil)
		w.observeSighting(seen)
		w.silence(b, 2*feed.ProbeInterval, nil)
		w.observeSighting(sighting.Sighting{Member: "b", UID: "uid-b", At: w.Entry("b").Status.LastSeen.Time})
	}
	w.expectShown(t, "b", clusterset.MemberLost, true)
}

// R375: the clock of the only replica is set back by two hours.
func TestClockIsSetBack(t *testing.T) {
	w, b := exporting(t, nil)
	w.observeSighting(sighting.Sighting{Member: "b", UID: "uid-b", At: w.clock.Now()})
	w.clock.SetTime(w.clock.Now().Add(-2 * time.Hour))
	w.tick()
	if got := w.Entry("b").Status; got.LastSeen.After(w.clock.Now()) {
		t.Errorf("last seen %s, it is %s", got.LastSeen, w.clock.Now())
	}
	for range 5 {
		w.clock.Step(feed.ProbeInterval)
		w.probe(b, ownEntry("b", withExports(1)))
		w.tick()
	}
	w.expectShown(t, "b", connected, false)
	w.silence(b, liveness.DefaultTTL, nil)
	w.expectShown(t, "b", clusterset.MemberLost, true)
}

// R168: a replica starts while a member is silent, but not lost yet. The other one, which leads,
// finds that it is lost, withdraws endpoints, and records that.
func TestReplicaLearnsThatAMemberWasLost(t *testing.T) {
	recorded := newHost()
	w, _ := exporting(t, recorded)
	w.persist(t)
	after := restart(t, recorded, 50*time.Second)
	b := after.add("b")
	after.silence(b, 2*feed.ProbeInterval, nil)
	after.expectShown(t, "b", connected, false)
	lost := recorded.leases["b"]
	lost.Lost, lost.UID = true, "uid-other"
	after.observeSighting(lost)
	after.expectShown(t, "b", connected, false)
	lost.UID = "uid-b"
	after.observeSighting(lost)
	after.expectShown(t, "b", clusterset.MemberLost, true)
	after.probe(b, ownEntry("b", withExports(1)))
	after.observeSighting(lost)
	after.expectShown(t, "b", connected, false)
}
