// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/acceptance"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
)

const connected = clusterset.MemberConnected

// R15, R27: one hub lost contact and still has an export that the other knows to be
// withdrawn. Using both would keep the export forever.
func TestWithdrawnExportOfALostHubIsNotUsed(t *testing.T) {
	w := newFixture(t, nil)
	g, h := w.join("g", hubFor("x")), w.join("h", hubFor("x"))
	for _, hub := range []*receiver{g, h} {
		w.replace(t, hub, exports.Services, exported("x", "web", "x"), exported("x", "api", "x"))
		w.probe(hub, ownEntry(hub.peer.id), relayedEntry("x", withExports(2)))
	}
	if w.exporters("web") != "x" || w.Entry("x").Status.Path[1] != "g" {
		t.Fatalf("x is reached by %v", w.Entry("x").Status.Path)
	}
	for range 2 {
		w.clock.Step(liveness.DefaultTTL / 2)
		g.Probed(nil, errors.New("no route to host"))
		w.probe(h, ownEntry("h"), relayedEntry("x", withExports(2)))
	}
	w.replace(t, h, exports.Services, exported("x", "api", "x"))
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))

	if got := w.exporters("web"); got != "" {
		t.Errorf("web is still exported by %q", got)
	}
	if got := w.exporters("api"); got != "x" {
		t.Errorf("api is exported by %q, want x", got)
	}
	if got := w.Entry("x").Status; got.State != connected || !cmp.Equal(got.Path, []string{"x", "h"}) || got.Exports != 1 {
		t.Errorf("the entry of x is %+v", got)
	}
}

func TestRelayedClusterHasItsOwnEntry(t *testing.T) {
	w := newFixture(t, nil)
	h := w.join("h", hubFor("*"))
	w.replace(t, h, exports.Services, exported("h", "web"), exported("x", "web", "x"))
	w.replace(t, h, exports.EndpointSlices, exportedSlice("x", "web", "web-1", "x"))
	entry := relayedEntry("x", withExports(7))
	entry.UID, entry.CreationTimestamp = "uid-of-the-hub", metav1.NewTime(epoch)
	entry.Finalizers, entry.Annotations, entry.Namespace = []string{"x/y"}, map[string]string{"x": "y"}, "ns"
	entry.Labels = map[string]string{"x": "y"}
	w.probe(h, ownEntry("h"), entry)
	got := w.Entry("x")
	if diff := cmp.Diff(metav1.ObjectMeta{Name: "x", Labels: map[string]string{"app.kubernetes.io/managed-by": "mcs-apiserver"}}, got.ObjectMeta); diff != "" {
		t.Errorf("metadata of the hub is passed on: %s", diff)
	}
	if got.Status.Exports != 1 || got.Status.Endpoints != 2 || !got.Status.Synced || !cmp.Equal(got.Status.Path, []string{"x", "h"}) {
		t.Errorf("got %+v, want what is held here", got.Status)
	}
	if w.exporters("web") != "h,x" {
		t.Errorf("web is exported by %q", w.exporters("web"))
	}
	w.probe(h, ownEntry("h"))
	if w.Entry("x") != nil || w.exporters("web") != "h" {
		t.Error("a cluster that the hub no longer lists still exists")
	}
}

// R302: of a cluster for which it is not known when its hub saw it, nothing is kept.
func TestRelayedClusterThatWasNeverSeenIsOverdue(t *testing.T) {
	w := newFixture(t, nil)
	h := w.join("h", hubFor("*"))
	entry := relayedEntry("x", withExports(1))
	entry.Status.State, entry.Status.LastSeen = clustersetv1alpha1.MemberLost, nil
	w.probe(h, ownEntry("h"), entry)
	if got := w.Entry("x").Status; !got.Expired || !got.Overdue {
		t.Errorf("x is %s, expired %t, overdue %t", got.State, got.Expired, got.Overdue)
	}
}

// R277: a hub has not seen a cluster after it was seen itself, whatever it says.
func TestRelayedClusterIsNotSeenAfterItsHub(t *testing.T) {
	w := newFixture(t, nil)
	h := w.join("h", hubFor("*"))
	w.replace(t, h, exports.Services, exported("x", "web", "x"))
	for _, seen := range []time.Duration{-time.Minute, 24 * time.Hour} {
		at := metav1.NewTime(w.clock.Now().Add(seen))
		entry := relayedEntry("x", withExports(1))
		entry.Status.State, entry.Status.LastSeen = clustersetv1alpha1.MemberStale, &at
		w.probe(h, ownEntry("h"), entry)
		want := min(seen, 0)
		if got := w.Entry("x").Status.LastSeen.Sub(w.clock.Now()); got != want {
			t.Errorf("x was seen %s from now, want %s", got, want)
		}
		if got := w.Exports(types.NamespacedName{Namespace: "ns", Name: "web"})[0].LastSeen.Sub(w.clock.Now()); got != want {
			t.Errorf("the exporter was seen %s from now, want %s", got, want)
		}
	}
}

// A hub that may relay fewer clusters must not keep the exports of the others,
// nor wait for a confirmation that they are gone.
func TestNarrowedRelayRemovesOtherClusters(t *testing.T) {
	w := newFixture(t, nil)
	w.upsertSecret(t.Context(), secretFor("h", membertest.ValidKubeconfig(), withData(clusterset.MemberSecretRelayFor, "x,y")))
	h := w.connect(w.peers["member-h"])
	h.ClaimsRead(identity.Claims{ID: "h", ClusterSet: "set", ClaimedAt: epoch})
	all := []any{exported("x", "web", "x"), exported("y", "web", "y")}
	w.replace(t, h, exports.Services, all...)
	w.replace(t, h, exports.EndpointSlices)
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)), relayedEntry("y", withExports(1)))
	if w.exporters("web") != "x,y" {
		t.Fatalf("web is exported by %q", w.exporters("web"))
	}
	w.upsertSecret(t.Context(), secretFor("h", membertest.ValidKubeconfig(), withData(clusterset.MemberSecretRelayFor, "x")))
	if got := w.exporters("web"); got != "x" {
		t.Errorf("web is exported by %q, want x", got)
	}
	h = w.connect(w.peers["member-h"])
	w.replace(t, h, exports.Services, all...)
	w.replace(t, h, exports.EndpointSlices)
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)), relayedEntry("y", withExports(1)))
	expectCondition(t, w.Entry("h"), clusterset.MemberSynced, metav1.ConditionTrue, "Synced", "")
	if w.Entry("y") != nil {
		t.Error("y still has an entry")
	}
}

func TestEmptyListOfOneRelayedClusterNeedsConfirmation(t *testing.T) {
	w := newFixture(t, nil)
	h := w.join("h", hubFor("*"))
	w.replace(t, h, exports.Services, exported("h", "web"), exported("x", "web", "x"))
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
	w.replace(t, h, exports.Services, exported("h", "web"))
	notSynced := relayedEntry("x")
	notSynced.Status.Synced = false
	w.probe(h, ownEntry("h"), notSynced)
	if w.exporters("web") != "h,x" {
		t.Fatalf("web is exported by %q: the entry of a hub that is not synced was used", w.exporters("web"))
	}
	w.probe(h, ownEntry("h"), relayedEntry("x"))
	if w.exporters("web") != "h" {
		t.Errorf("web is exported by %q, want h: the hub has confirmed that x has none", w.exporters("web"))
	}
}

// R167: a hub that was just started lists what it remembers of a cluster. What it
// has not read yet is not withdrawn.
func TestIncompleteListOfARelayedClusterNeedsConfirmation(t *testing.T) {
	w := newFixture(t, nil)
	h := w.join("h", hubFor("*"))
	w.replace(t, h, exports.Services, exported("x", "web", "x"), exported("x", "api", "x"))
	w.replace(t, h, exports.EndpointSlices, exportedSlice("x", "web", "web-1", "x"), exportedSlice("x", "api", "api-1", "x"))
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(2)))
	count := func() int32 { return w.Entry("x").Status.Endpoints }
	w.replace(t, h, exports.EndpointSlices, exportedSlice("x", "web", "web-1", "x"))
	if !h.feed.ProbePending() {
		t.Error("the hub is not asked whether the missing slice is gone")
	}
	reading := relayedEntry("x", func(s *clustersetv1alpha1.MemberStatus) { s.Exports, s.Endpoints, s.Synced = 2, 2, false })
	w.probe(h, ownEntry("h"), reading)
	if count() != 4 || w.Entry("x").Status.Synced {
		t.Fatalf("%d endpoints are known of x, want those that the hub has not read yet as well", count())
	}
	w.upsert(t, h, exportedSlice("x", "api", "api-1", "x"))
	if count() != 4 || !w.Entry("h").Status.Synced {
		t.Errorf("%d endpoints are known of x", count())
	}
	w.replace(t, h, exports.EndpointSlices, exportedSlice("x", "web", "web-1", "x"))
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(2)))
	if count() != 2 {
		t.Errorf("%d endpoints are known of x, want 2: the hub has read all of x and counts no more", count())
	}
}

// A Secret for a cluster that a hub relays must not interrupt anything.
func TestMemberReplacesTheHubOnceItHasBeenRead(t *testing.T) {
	w := newFixture(t, nil)
	h := w.join("h", hubFor("*"))
	w.replace(t, h, exports.Services, exported("x", "web", "x"))
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
	pathOf := func() string {
		var path []string
		for _, export := range w.Exports(types.NamespacedName{Namespace: "ns", Name: "web"}) {
			path = append(path, export.Service.Spec.Path...)
		}
		return strings.Join(path, ",")
	}
	x := w.join("x")
	w.replace(t, x, exports.Services, exported("x", "web"))
	if got := pathOf(); got != "x,h" {
		t.Errorf("web is reached by %q before the endpoints of x are read, want x,h", got)
	}
	w.notified()
	w.replace(t, x, exports.EndpointSlices)
	if got := pathOf(); got != "x" || w.notified() != "ns/web" {
		t.Errorf("web is reached by %q, want x", got)
	}
	if got := w.Entry("x"); got.UID != "secret-x" {
		t.Errorf("the entry is not that of the Secret: %+v", got)
	}
	w.removeSecret(t.Context(), secretFor("x", membertest.ValidKubeconfig()))
	if got := pathOf(); got != "x,h" {
		t.Errorf("web is reached by %q without the Secret, want x,h", got)
	}
}

// R426: that a hub sees a cluster does not mean that another replica reaches the cluster itself.
func TestClusterThatItsHubSeesIsNotReadElsewhere(t *testing.T) {
	recorded := newHost()
	w := newFixture(t, recorded)
	h := w.join("h", hubFor("*"))
	w.replace(t, h, exports.Services, exported("x", "web", "x"))
	w.replace(t, h, exports.EndpointSlices)
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
	w.persist(t)
	after := restart(t, recorded, time.Second)
	x := after.add("x")
	expectCondition(t, after.Entry("x"), clusterset.MemberSynced, metav1.ConditionUnknown, clusterset.ReasonUnrecorded, "")
	h = after.add("h", hubFor("*"))
	// What x exported is known from the hub: neither readiness nor leadership waits for x.
	after.tick()
	expectCondition(t, after.Entry("secret.member-x"), clusterset.MemberSynced, metav1.ConditionUnknown, "Reading", "")
	if got := after.unread(0); !slices.Equal(got, []string{"h"}) {
		t.Errorf("a server that starts waits for %v", got)
	}
	for range maxUnrecorded / feed.ProbeInterval {
		after.silence(x, feed.ProbeInterval, nil)
		after.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
		after.observeSighting(sighting.Sighting{Member: "x", UID: "uid-x", At: after.clock.Now()})
	}
	expectCondition(t, after.Entry("secret.member-x"), clusterset.MemberSynced, metav1.ConditionUnknown, "Reading", "")
	if after.ReadElsewhere() {
		t.Error("another replica has read x")
	}
}

// R101: a hub that knows another cluster by the same ID is reported.
func TestNamesakesOfAHubAreReported(t *testing.T) {
	w := newFixture(t, nil)
	w.join("b")
	h := w.join("h", hubFor("*"))
	refused := relayedEntry("a", withUID("uid-other"))
	refused.Status.State = "Refused"
	for name, test := range map[string]struct {
		entries []clustersetv1alpha1.Member
		reason  string
		message string
	}{
		"none":                  {[]clustersetv1alpha1.Member{relayedEntry("a"), relayedEntry("b"), relayedEntry("x")}, "Mutual", ""},
		"this cluster":          {[]clustersetv1alpha1.Member{relayedEntry("a", withUID("uid-other")), relayedEntry("b")}, acceptance.ReasonDuplicateID, `"a" (UID uid-other); give the cluster of each pair`},
		"a member":              {[]clustersetv1alpha1.Member{relayedEntry("a"), relayedEntry("b", withUID("uid-other"))}, acceptance.ReasonDuplicateID, `"b" (UID uid-other); give the cluster of each pair`},
		"of another ClusterSet": {[]clustersetv1alpha1.Member{relayedEntry("a", withUID("uid-other"), func(s *clustersetv1alpha1.MemberStatus) { s.ClusterSet = "another" })}, "Mutual", ""},
		"refused by the hub":    {[]clustersetv1alpha1.Member{refused}, "Mutual", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w.probe(h, append(test.entries, ownEntry("h"))...)
			status := metav1.ConditionTrue
			if test.reason == acceptance.ReasonDuplicateID {
				status = metav1.ConditionFalse
			}
			expectCondition(t, w.Entry("h"), clusterset.MemberMutual, status, test.reason, test.message)
		})
	}
}

// relaying returns a fixture with a hub that relays a cluster, which exports web.
func relaying(t *testing.T) (*fixture, *receiver) {
	t.Helper()
	w := newFixture(t, nil)
	h := w.join("h", hubFor("*"))
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
	w.replace(t, h, exports.Services, exported("x", "web", "x"))
	w.replace(t, h, exports.EndpointSlices, exportedSlice("x", "web", "web-1", "x"))
	w.clock.Step(feed.ProbeInterval)
	return w, h
}

// R376: a hub was restarted without its records, and cannot reach a cluster that it relayed.
// That is unknown, not withdrawn: the cluster is silent.
func TestClusterThatItsHubHasNotReachedIsSilent(t *testing.T) {
	w, h := relaying(t)
	unreached := relayedEntry("x")
	unreached.Status = clustersetv1alpha1.MemberStatus{ClusterID: "x", State: clustersetv1alpha1.MemberConnecting, TTLSeconds: 60}
	claimed := relayedEntry("x") // its claims were read, but nothing else
	claimed.Status.State, claimed.Status.ClusterUID, claimed.Status.Synced = clustersetv1alpha1.MemberConnecting, "", false
	start := w.clock.Now().Add(-feed.ProbeInterval)
	w.probe(h, ownEntry("h"), unreached)
	w.replace(t, h, exports.Services)
	w.replace(t, h, exports.EndpointSlices)
	silence := func(until time.Duration) {
		for w.clock.Since(start) < until {
			w.clock.Step(feed.ProbeInterval)
			w.probe(h, ownEntry("h"), unreached)
			w.probe(h, ownEntry("h"), claimed)
		}
	}
	for _, test := range []struct {
		silent time.Duration
		want   clusterset.MemberState
	}{
		{0, connected}, {liveness.StaleAfter, clusterset.MemberStale}, {liveness.DefaultTTL, clusterset.MemberLost},
	} {
		silence(test.silent)
		w.expectShown(t, "x", test.want, test.want == clusterset.MemberLost)
		if got := w.Entry("x").Status; got.Synced || w.exporters("web") != "x" || got.ClusterUID != "uid-x" {
			t.Errorf("%s: web is exported by %q, the entry is %+v", test.want, w.exporters("web"), got)
		}
	}
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
	w.expectShown(t, "x", connected, false)
	claimed.Status.ClusterUID = "uid-other" // another cluster with the same ID
	w.probe(h, ownEntry("h"), claimed)
	w.expectShown(t, "x", clusterset.MemberConnecting, false)
}

// R376: a hub shows a cluster that is new to it as Connecting, and falls silent for good. What
// was imported from the cluster before is not kept forever.
func TestConnectingClusterOfALostHubIsLost(t *testing.T) {
	w, h := relaying(t)
	other := relayedEntry("x", withUID("uid-other"))
	other.Status.State, other.Status.Synced = clustersetv1alpha1.MemberConnecting, false
	w.probe(h, ownEntry("h"), other)
	w.expectShown(t, "x", clusterset.MemberConnecting, false)
	w.silence(h, liveness.DefaultTTL, nil)
	w.expectShown(t, "h", clusterset.MemberLost, true)
	w.expectShown(t, "x", clusterset.MemberLost, true)
}

// R426: the Secret of a cluster that a hub relays leads nowhere. It does not hide that the
// cluster is silent: the entry of the cluster is that of the hub, which is used.
func TestSecretThatLeadsNowhereDoesNotHideARelayedCluster(t *testing.T) {
	w, h := relaying(t)
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
	x := w.add("x")
	fail := func(passed time.Duration) {
		for end := w.clock.Now().Add(passed); w.clock.Now().Before(end); {
			w.silence(h, feed.ProbeInterval, nil)
			x.Probed(nil, errors.New("no route to host"))
		}
	}
	w.expectShown(t, "x", connected, false)
	w.expectShown(t, "secret.member-x", clusterset.MemberConnecting, false)
	fail(liveness.DefaultTTL)
	w.expectShown(t, "x", clusterset.MemberLost, true)
	w.observeLook("x", "uid-x", &liveness.Look{At: w.clock.Now(), Answers: 1, Services: []string{"ns/web"}})
	w.expectShown(t, "x", clusterset.MemberStale, true)
	fail(liveness.MaxStale)
	w.expectShown(t, "x", clusterset.MemberLost, true)
	if !w.Entry("x").Status.Overdue {
		t.Error("it is not overdue")
	}
	evaluations := w.evaluations
	w.clock.Step(feed.ProbeInterval)
	w.tick()
	if w.evaluations != evaluations {
		t.Error("all peers were evaluated although nothing changed")
	}
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
	w.replace(t, h, exports.Services, exported("x", "web", "x"))
	w.replace(t, h, exports.EndpointSlices, exportedSlice("x", "web", "web-1", "x"))
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
	w.expectShown(t, "x", connected, false)
}

// R426: the Secret of a cluster that a hub relays is invalid. The hub is used until the Secret
// is valid, and the cluster was read. A Secret that expels the cluster does, valid or not.
func TestInvalidSecretDoesNotEndARelay(t *testing.T) {
	w, _ := relaying(t)
	w.upsertSecret(t.Context(), secretFor("x", "broken"))
	if got := w.exporters("web"); got != "x" {
		t.Errorf("web is exported by %q, want x", got)
	}
	w.expectShown(t, "x", connected, false)
	expectCondition(t, w.Entry("secret.member-x"), clusterset.MemberAccepted, metav1.ConditionFalse, acceptance.ReasonInvalidSecret, "kubeconfig")
	w.upsertSecret(t.Context(), secretFor("x", membertest.ValidKubeconfig()))
	if got := w.exporters("web"); got != "x" {
		t.Errorf("web is exported by %q when the Secret is valid, want x", got)
	}
	expelling := secretFor("x", "broken")
	expelling.Annotations = map[string]string{clusterset.ExpelledAnnotation: "true"}
	w.upsertSecret(t.Context(), expelling)
	w.expectShown(t, "x", clusterset.MemberRefused, false)
	if got := w.exporters("web"); got != "" {
		t.Errorf("web is exported by %q, which is expelled", got)
	}
}

// R168, R300, R426: a hub is shut down, after its clusters got Secrets of their own. Another replica has
// read such a cluster, and this one cannot reach it: it is not lost until no replica sees it.
func TestClusterOfALostHubThatAnotherReplicaReachesIsNotLost(t *testing.T) {
	w, h := relaying(t)
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
	w.add("x")
	seen := &sighting.Sighting{Member: "x", UID: "uid-x"}
	for range 2 * time.Hour / feed.ProbeInterval {
		w.silence(h, feed.ProbeInterval, seen)
		if got := w.Entry("x").Status; got.Expired || got.State == clusterset.MemberLost {
			t.Fatalf("x is %s", got.State)
		}
	}
	w.expectShown(t, "h", clusterset.MemberLost, true)
	w.expectShown(t, "x", clusterset.MemberStale, false)
	expectCondition(t, w.Entry("x"), clusterset.MemberSynced, metav1.ConditionUnknown, clusterset.ReasonReachedElsewhere, "another replica")
	if got := w.Entry("x").Status; !got.LastSeen.Time.Equal(seen.At) || got.Synced {
		t.Errorf("the entry is %+v", got)
	}
	w.silence(h, liveness.DefaultTTL-feed.ProbeInterval, nil)
	w.expectShown(t, "x", clusterset.MemberStale, false)
	w.silence(h, feed.ProbeInterval, nil)
	w.expectShown(t, "x", clusterset.MemberLost, true)
	seen.Lost = true
	w.observeSighting(*seen)
	w.tick()
	if got := w.Entry("x").Status; got.Overdue || !got.LastSeen.Time.Equal(seen.At) {
		t.Errorf("x is overdue: %t, and was last seen %s", got.Overdue, got.LastSeen)
	}
	seen.Lost = false
	w.silence(h, feed.ProbeInterval, seen)
	w.expectShown(t, "x", clusterset.MemberStale, false)
	w.silence(h, liveness.DefaultTTL, &sighting.Sighting{Member: "x", UID: "uid-other"})
	w.expectShown(t, "x", clusterset.MemberLost, true)
}

// R300, R426: this replica reaches such a cluster itself, but may not read its exports.
func TestClusterOfALostHubThatCannotBeReadIsNotLost(t *testing.T) {
	w, h := relaying(t)
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
	x := w.join("x")
	for range 2 * liveness.DefaultTTL / feed.ProbeInterval {
		w.silence(h, feed.ProbeInterval, nil)
		w.probe(x, ownEntry("x", withExports(1)))
		w.observeSighting(sighting.Sighting{Member: "x", UID: "uid-x", At: w.Entry("x").Status.LastSeen.Time})
	}
	w.expectShown(t, "h", clusterset.MemberLost, true)
	w.expectShown(t, "x", clusterset.MemberStale, false)
	if got := w.routes["x"]; got.Elsewhere {
		t.Error("another replica reaches it")
	}
	for range liveness.DefaultTTL / feed.ProbeInterval {
		w.silence(h, feed.ProbeInterval, nil)
		x.Probed(nil, errors.New("no route to host"))
	}
	w.expectShown(t, "x", clusterset.MemberLost, true)
}

// R426: a member that was accepted, but cannot be read, is lost. Its hub, which is used,
// reaches it.
func TestUnreadMemberDoesNotHideARelayedCluster(t *testing.T) {
	w, h := relaying(t)
	x := w.join("x")
	for range 2 * liveness.DefaultTTL / feed.ProbeInterval {
		w.silence(x, feed.ProbeInterval, nil)
		w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
		w.observeSighting(sighting.Sighting{Member: "x", UID: "uid-x", At: w.clock.Now()}) // by the hub
	}
	w.expectShown(t, "secret.member-x", clusterset.MemberLost, true)
	w.expectShown(t, "x", connected, false)
	// What was found about endpoints of x says nothing about the member that is not used.
	w.silence(h, 2*liveness.DefaultTTL, nil)
	w.observeLook("x", "uid-x", &liveness.Look{At: w.clock.Now(), Answers: 1, Services: []string{"ns/web"}})
	w.expectShown(t, "x", clusterset.MemberStale, true)
	w.expectShown(t, "secret.member-x", clusterset.MemberLost, true)
	w.observeSighting(sighting.Sighting{Member: "secret.member-x", UID: "uid-x", At: w.clock.Now()})
	w.expectShown(t, "secret.member-x", clusterset.MemberStale, false) // another replica reaches it
	w.probe(x, ownEntry("x", withExports(1)))
	w.replace(t, x, exports.Services, exported("x", "web"))
	w.replace(t, x, exports.EndpointSlices, exportedSlice("x", "web", "web-1"))
	if got := w.Entry("x"); got.UID != "secret-x" || w.Entry("secret.member-x") != nil {
		t.Errorf("the entry is %+v when the member was read", got)
	}
}
