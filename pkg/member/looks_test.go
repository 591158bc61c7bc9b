// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// stateFor returns the state of the only cluster that exports a Service.
func (f *fixture) stateFor(t *testing.T, service string) clusterset.MemberState {
	t.Helper()
	found := f.Exports(types.NamespacedName{Namespace: "ns", Name: service})
	if len(found) != 1 {
		t.Fatalf("%s is exported by %d clusters", service, len(found))
	}
	return found[0].State
}

// expectShown checks the state of a member, and whether it has expired.
func (f *fixture) expectShown(t *testing.T, member string, state clusterset.MemberState, expired bool) {
	t.Helper()
	if got := f.Entry(member).Status; got.State != state || got.Expired != expired {
		t.Errorf("%s is %s, expired %t; want %s and %t", member, got.State, got.Expired, state, expired)
	}
}

// R301, R302: a member that has been silent for its TTL is stale while some of its endpoints
// answer, for an hour. The state of its imports depends on their own endpoints.
func TestEndpointsDecideAboutASilentMember(t *testing.T) {
	w, b := exporting(t, nil)
	w.upsert(t, b, exported("b", "api"))
	w.observeLook("b", "uid-b", &liveness.Look{At: w.clock.Now(), Sample: true, Answers: 1})
	seen := w.clock.Now()
	w.silence(b, liveness.StaleAfter, nil)
	w.expectShown(t, "b", clusterset.MemberStale, false)
	w.silence(b, liveness.DefaultTTL-liveness.StaleAfter, nil)
	w.expectShown(t, "b", clusterset.MemberLost, true)
	expectCondition(t, w.Entry("b"), clusterset.MemberEndpointsReachable, metav1.ConditionUnknown, clusterset.ReasonEndpointsNotAsked, "")
	w.notified()

	w.observeLook("b", "uid-other", &liveness.Look{At: w.clock.Now(), Answers: 2, Services: []string{"ns/api", "ns/web"}})
	w.expectShown(t, "b", clusterset.MemberLost, true)
	w.observeLook("b", "uid-b", &liveness.Look{At: w.clock.Now(), Answers: 1, Silent: 1, Services: []string{"ns/web"}})
	w.expectShown(t, "b", clusterset.MemberStale, true)
	expectCondition(t, w.Entry("b"), clusterset.MemberEndpointsReachable, metav1.ConditionTrue, clusterset.ReasonEndpointsAnswer, "endpoints of 1 services answer, those of 1 do not")
	if web, api, changed := w.stateFor(t, "web"), w.stateFor(t, "api"), w.notified(); web != clusterset.MemberStale || api != clusterset.MemberLost || changed != "ns/web" {
		t.Errorf("web is %s, api %s, and %q was reported as changed", web, api, changed)
	}
	w.observeLook("b", "uid-b", &liveness.Look{At: w.clock.Now(), Answers: 1, Silent: 1, Services: []string{"ns/api"}})
	if web, api, changed := w.stateFor(t, "web"), w.stateFor(t, "api"), w.notified(); web != clusterset.MemberLost || api != clusterset.MemberStale || changed != "ns/api,ns/web" {
		t.Errorf("web is %s, api %s, and %q was reported as changed", web, api, changed)
	}

	w.silence(b, seen.Add(liveness.DefaultTTL+liveness.MaxStale).Sub(w.clock.Now())-feed.ProbeInterval, nil)
	w.expectShown(t, "b", clusterset.MemberStale, true)
	if w.Entry("b").Status.Overdue {
		t.Error("overdue before the hour is over")
	}
	w.silence(b, feed.ProbeInterval, nil)
	w.expectShown(t, "b", clusterset.MemberLost, true)
	if !w.Entry("b").Status.Overdue {
		t.Error("not overdue when the hour is over")
	}
	if api, changed := w.stateFor(t, "api"), w.notified(); api != clusterset.MemberLost || changed != "ns/api" {
		t.Errorf("after an hour, api is %s, and %q was reported as changed", api, changed)
	}

	w.probe(b, ownEntry("b", withExports(2)))
	w.expectShown(t, "b", connected, false)
	w.silence(b, liveness.DefaultTTL, nil)
	w.expectShown(t, "b", clusterset.MemberLost, true) // what was found before it was seen again does not count
}

// R300: a member whose Kubernetes API responds, but not mcs-apiserver, is Unavailable, unless
// another replica reaches it.
func TestMemberWhoseAPIIsDownIsUnavailable(t *testing.T) {
	for name, err := range map[string]error{
		"503": apierrors.NewServiceUnavailable("the server is currently unable to handle the request"),
		"404": apierrors.NewNotFound(schema.GroupResource{Resource: "members"}, ""),
	} {
		t.Run(name, func(t *testing.T) {
			w, b := exporting(t, nil)
			fail := func(passed time.Duration) {
				for end := w.clock.Now().Add(passed); w.clock.Now().Before(end); {
					w.clock.Step(feed.ProbeInterval)
					b.Probed(nil, err)
					w.tick()
				}
			}
			fail(liveness.StaleAfter - feed.ProbeInterval)
			w.expectShown(t, "b", connected, false)
			fail(feed.ProbeInterval)
			w.expectShown(t, "b", clusterset.MemberUnavailable, false)
			fail(liveness.DefaultTTL - liveness.StaleAfter)
			w.expectShown(t, "b", clusterset.MemberLost, true)
			w.observeLook("b", "uid-b", &liveness.Look{At: w.clock.Now(), Answers: 1, Services: []string{"ns/web"}})
			w.expectShown(t, "b", clusterset.MemberUnavailable, true)
			b.Probed(nil, apierrors.NewUnauthorized("expired"))
			w.expectShown(t, "b", clusterset.MemberStale, true)
		})
	}
}

// R304: of a cluster that a hub relays, this cluster looks at the endpoints itself. The
// endpoints of the hub say nothing about it.
func TestEndpointsDecideAboutARelayedCluster(t *testing.T) {
	w := newFixture(t, nil)
	h := w.join("h", hubFor("*"))
	seen := metav1.NewTime(w.clock.Now())
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1), func(s *clustersetv1alpha1.MemberStatus) { s.LastSeen = &seen }))
	w.replace(t, h, exports.Services, exported("x", "web", "x"))
	w.replace(t, h, exports.EndpointSlices)
	w.silence(h, liveness.DefaultTTL, nil)
	w.observeLook("h", "uid-h", &liveness.Look{At: w.clock.Now(), Answers: 1, Services: []string{"ns/web"}})
	w.expectShown(t, "h", clusterset.MemberStale, true)
	w.expectShown(t, "x", clusterset.MemberLost, true)
	if got := w.stateFor(t, "web"); got != clusterset.MemberLost {
		t.Errorf("web is %s", got)
	}
	w.observeLook("x", "uid-x", &liveness.Look{At: w.clock.Now(), Answers: 1, Services: []string{"ns/web"}})
	w.expectShown(t, "x", clusterset.MemberStale, true)
	if got := w.stateFor(t, "web"); got != clusterset.MemberStale {
		t.Errorf("web is %s", got)
	}
}

// R302: when a hub last saw a cluster is not after the hub itself was seen, whatever it says.
func TestHubWithAClockAheadDoesNotVoidLooks(t *testing.T) {
	w := newFixture(t, nil)
	h := w.join("h", hubFor("*"))
	ahead := metav1.NewTime(w.clock.Now().Add(time.Hour))
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1), func(s *clustersetv1alpha1.MemberStatus) { s.LastSeen = &ahead }))
	w.replace(t, h, exports.Services, exported("x", "web", "x"))
	w.replace(t, h, exports.EndpointSlices)
	w.silence(h, liveness.DefaultTTL, nil)
	w.observeLook("x", "uid-x", &liveness.Look{At: w.clock.Now(), Answers: 1, Services: []string{"ns/web"}})
	w.expectShown(t, "x", clusterset.MemberStale, true)
}

// R313: a member that comes back with fewer exports is believed when it lists some, or
// confirms that there are none.
func TestMemberThatComesBackWithFewerExportsIsBelieved(t *testing.T) {
	w, b := exporting(t, nil)
	w.upsert(t, b, exported("b", "api"))
	w.silence(b, 2*liveness.DefaultTTL, nil)
	w.probe(b, ownEntry("b", withExports(1)))
	w.replace(t, b, exports.Services, exported("b", "api"))
	if w.exporters("web") != "" || w.exporters("api") != "b" {
		t.Errorf("web is exported by %q, api by %q, want only api", w.exporters("web"), w.exporters("api"))
	}
	w.silence(b, 2*liveness.DefaultTTL, nil)
	w.replace(t, b, exports.Services)
	if w.exporters("api") != "b" {
		t.Error("an empty list is believed before the member confirms it")
	}
	w.probe(b, ownEntry("b"))
	if w.exporters("api") != "" {
		t.Error("an empty list is not believed although the member confirms it")
	}
}

// R375: the clock of a hub is two hours behind. A cluster that it relays becomes silent: it was
// not last seen two hours ago.
func TestHubWithAClockBehindDoesNotEndTheHour(t *testing.T) {
	w := newFixture(t, nil)
	h := w.join("h", hubFor("*"))
	show := func(state clustersetv1alpha1.MemberState, seen time.Time) {
		at := metav1.NewTime(seen.Add(-2 * time.Hour))
		entry := relayedEntry("x", withExports(1))
		entry.Status.LastSeen, entry.Status.State = &at, state
		w.probe(h, ownEntry("h"), entry)
	}
	show(clustersetv1alpha1.MemberConnected, w.clock.Now())
	w.replace(t, h, exports.Services, exported("x", "web", "x"))
	w.replace(t, h, exports.EndpointSlices)
	last := w.clock.Now()
	for range 12 {
		w.clock.Step(feed.ProbeInterval)
		show(clustersetv1alpha1.MemberStale, last)
	}
	show(clustersetv1alpha1.MemberLost, last)
	w.expectShown(t, "x", clusterset.MemberLost, true)
	if status := w.Entry("x").Status; status.Overdue || !status.LastSeen.Time.Equal(last) {
		t.Errorf("overdue %t, last seen %s, want %s", status.Overdue, status.LastSeen, last)
	}
	for end := last.Add(liveness.DefaultTTL + liveness.MaxStale); w.clock.Now().Before(end); {
		if w.Entry("x").Status.Overdue {
			t.Fatalf("overdue %s early", end.Sub(w.clock.Now()))
		}
		w.clock.Step(time.Minute)
		show(clustersetv1alpha1.MemberLost, last)
	}
	if !w.Entry("x").Status.Overdue {
		t.Error("it is not overdue when the hour is over")
	}
}
