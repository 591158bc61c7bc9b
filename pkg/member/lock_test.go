// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

// within fails the test if a call takes long.
func within(t *testing.T, what string, call func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s is blocked", what)
	}
}

// Objects are validated before any lock is taken: while the list of one member is
// validated, all members are probed and served.
func TestValidationBlocksNothingElse(t *testing.T) {
	large, other := membertest.NewServer(t, "b"), membertest.NewServer(t, "c")
	large.Export("web")
	other.Export("api")
	blocked, release := make(chan struct{}), make(chan struct{})
	r := newRunning(t, newHost(), secretFor("b", large.Kubeconfig("token-1")), secretFor("c", other.Kubeconfig("token-1")))
	r.newFeed = func(config feed.Config) source {
		admit := config.Admit
		config.Admit = func(object exports.Object) exports.Arrival {
			if object.Cluster == "b" {
				close(blocked)
				<-release
			}
			return admit(object)
		}
		return feed.New(config)
	}
	r.run(t)
	<-blocked
	defer func() {
		close(release)
		eventually(t, "the validated object is held", func() bool { return r.exporters("web") == "b" })
	}()
	eventually(t, "the other member is read", func() bool { return r.exporters("api") == "c" })
	eventually(t, "the member is probed while its list is validated", func() bool {
		entry := r.Entry("b")
		return entry.Status.LastSeen != nil && entry.Status.State == "Connected"
	})
	within(t, "the change of the local counts", func() { r.ReplaceLocal(exports.Share{}, exports.Share{Exports: 1, Endpoints: 1}) })
}

// R204: a member whose objects have millions of errors costs little, and others are
// read and probed meanwhile. What is kept of each object is short.
func TestInvalidObjectsOfOneMemberDoNotDelayOthers(t *testing.T) {
	w := newFixture(t, nil)
	b, c := w.join("b"), w.join("c")
	bad := exportedSlice("b", "web", "bad")
	bad.Spec.Endpoints = make([]discoveryv1.Endpoint, 1000)
	for i := range bad.Spec.Endpoints {
		for j := range 100 {
			bad.Spec.Endpoints[i].Addresses = append(bad.Spec.Endpoints[i].Addresses, fmt.Sprintf("256.0.%d.%d", i, j))
		}
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		for i := range 60 {
			bad := *bad
			bad.Name = fmt.Sprintf("bad-%d.b", i)
			w.upsert(t, b, &bad)
		}
	})
	within(t, "reading and probing another member", func() {
		for i := range 60 {
			w.upsert(t, c, exported("c", fmt.Sprintf("web-%d", i)))
			w.probe(c, ownEntry("c", withExports(int32(i))))
		}
	})
	ended.Wait()
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionFalse, "InvalidObjects", "60 objects are rejected")
	if bytes := exports.Footprint(b.peer.rejected[exports.EndpointSlices]); bytes > 60*2000 {
		t.Errorf("%d bytes are kept of 60 objects that are rejected", bytes)
	}
}

// A list is compared with what is held without the lock that everything else
// needs: while that goes on, no other call is blocked.
func TestComparisonBlocksNothingElse(t *testing.T) {
	w, b := exporting(t, nil)
	c := w.join("c")
	comparing, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		b.update(func(store *exports.Store, _ exports.Policy) exports.Update {
			close(comparing)
			<-release
			return store.Upsert(w.arrival(t, b, exported("b", "late")))
		}, func(exports.Update) { w.refreshLocked(b.peer) })
	}()
	<-comparing
	within(t, "reading", func() {
		if w.Entry("b") == nil || w.exporters("web") != "b" || len(w.Services()) != 1 || len(w.Names()) != 3 {
			t.Error("something is missing")
		}
		w.Settled()
	})
	within(t, "a probe of the member", func() { w.probe(b, ownEntry("b", withExports(1))) })
	within(t, "a probe of another member", func() { w.probe(c, ownEntry("c")) })
	within(t, "a list of another member", func() { w.replace(t, c, exports.Services, exported("c", "api")) })
	within(t, "a tick", func() { w.tick() })
	within(t, "a reader", func() { w.ObserveReader("z") })
	close(release)
	<-ended
	if w.exporters("late") != "b" {
		t.Error("the update was not applied")
	}
}

// A large update replaces the store as a whole, so that applying it takes no time
// with the lock held, and readers see all of it or nothing.
func TestLargeListIsAppliedWithoutTheLock(t *testing.T) {
	w, b := exporting(t, nil)
	before := b.peer.exports
	var objects []any
	for i := range maxInPlace + 1 {
		objects = append(objects, exported("b", fmt.Sprintf("web-%d", i)))
	}
	w.replace(t, b, exports.Services, objects...)
	if b.peer.exports == before {
		t.Error("a large list was applied in place")
	}
	if got := before.Export("b", types.NamespacedName{Namespace: "ns", Name: "web"}); got == nil {
		t.Error("the previous store was modified")
	}
	if got := len(w.Services()); got != maxInPlace+2 { // web keeps its endpoints
		t.Errorf("%d Services are known", got)
	}
}

// withMembers returns a Set with n members in a full mesh, and one of them.
func withMembers(t testing.TB, n int) (*fixture, *receiver) {
	w := newFixture(t, nil)
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("m%d", i))
	}
	var last *receiver
	for _, id := range ids {
		last = w.add(id)
		last.ClaimsRead(identityOf(id))
		entry := ownEntry(id)
		entry.Status.Peers = append([]string{"a"}, ids...)
		entry.Status.ClusterSetIPCIDRs = []string{fmt.Sprintf("243.%d.%d.0/24", len(id), len(w.peers)%256)}
		w.probe(last, entry)
	}
	return w, last
}

// The cost of an object or a tick does not depend on the number of members.
func TestCostOfAnObjectIsIndependentOfTheNumberOfMembers(t *testing.T) {
	cost := func(members int) (object, tick float64) {
		w, r := withMembers(t, members)
		port := int32(0)
		object = testing.AllocsPerRun(50, func() {
			port++
			changed := exported(r.peer.id, "web")
			changed.Spec.Ports[0].Port = port
			w.upsert(t, r, changed)
			w.changed = nil
		})
		return object, testing.AllocsPerRun(50, w.tick)
	}
	fewObject, fewTick := cost(3)
	manyObject, manyTick := cost(150)
	if manyObject > fewObject*1.2 {
		t.Errorf("an object takes %.0f allocations with 3 members, and %.0f with 150", fewObject, manyObject)
	}
	if manyTick > fewTick*1.2 {
		t.Errorf("a tick takes %.0f allocations with 3 members, and %.0f with 150", fewTick, manyTick)
	}
}

// Peers are evaluated together only if something changed that they depend on.
func TestPeersAreEvaluatedOnlyWhenNeeded(t *testing.T) {
	w, b := exporting(t, nil)
	before := w.evaluations
	w.tick()
	w.upsert(t, b, exported("b", "api"))
	w.remove(t, b, exported("b", "api"))
	w.replace(t, b, exports.Services, exported("b", "web"))
	w.probe(b, ownEntry("b", withExports(1)))
	b.ReadFailed(exports.Services, nil)
	w.ReplaceLocal(exports.Share{}, exports.Share{Exports: 1, Endpoints: 1})
	if got := w.evaluations - before; got != 0 {
		t.Errorf("all peers were evaluated %d times although nothing changed that they depend on", got)
	}
	w.silence(b, time.Hour, nil)
	if got := w.evaluations - before; got != 2 {
		t.Errorf("all peers were evaluated %d times when one became stale and then lost, want twice", got)
	}
}

func BenchmarkUpsert(b *testing.B) {
	for _, members := range []int{10, 100} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			w, r := withMembers(b, members)
			port := int32(0)
			for b.Loop() {
				port = port%60000 + 1
				changed := exported(r.peer.id, "web")
				changed.Spec.Ports[0].Port = port
				w.upsert(b, r, changed)
				w.changed = nil
			}
		})
	}
}

func BenchmarkTick(b *testing.B) {
	for _, members := range []int{10, 100} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			w, _ := withMembers(b, members)
			for b.Loop() {
				w.tick()
			}
		})
	}
}
