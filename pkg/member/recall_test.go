// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/memory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
)

// loaded returns what a server with Secrets for all clusters would recall.
func loaded(t *testing.T, recorded *host) map[string]memory.Member {
	t.Helper()
	return loadedWith(t, recorded, memory.NewRecorder(recorded, nil, nil), nil)
}

// loadedWith returns what a server would recall. Without Secrets, all clusters have
// one.
func loadedWith(t *testing.T, recorded *host, recorder *memory.Recorder, secrets []any) map[string]memory.Member {
	t.Helper()
	ids := clusterIDs(secrets)
	if secrets == nil {
		documents, _, err := recorded.List(t.Context())
		must(t, err)
		for name := range documents {
			_, id, _ := strings.Cut(name, ".")
			ids["member-"+id] = id
		}
	}
	members, err := recorder.Load(t.Context(), ids)
	must(t, err)
	return members
}

func names(recorded memory.Member) string {
	var names []string
	for _, object := range recorded.Services {
		names = append(names, object.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// restart returns another Set on the same host.
func restart(t *testing.T, recorded *host, passed time.Duration, secrets ...any) *fixture {
	t.Helper()
	w := newFixture(t, recorded)
	w.clock.Step(passed)
	w.recalled = loadedWith(t, recorded, w.recorder, secrets)
	must(t, w.recorder.TakeOver(t.Context()))
	for _, seen := range recorded.leases {
		w.observeSighting(seen)
	}
	return w
}

func TestRecordedExportsAreRecalled(t *testing.T) {
	recorded := newHost()
	w, b := exporting(t, recorded)
	h := w.join("h", hubFor("*"))
	w.replace(t, h, exports.Services, exported("x", "web", "x"))
	w.upsert(t, h, exportedSlice("x", "web", "web-7", "x"))
	seen := metav1.NewTime(w.clock.Now())
	relayed := relayedEntry("x", withExports(1), func(s *clustersetv1alpha1.MemberStatus) { s.LastSeen = &seen })
	w.probe(h, ownEntry("h"), relayed)
	w.probe(b, ownEntry("b", withExports(1)))
	w.persist(t)

	after := restart(t, recorded, time.Minute)
	after.add("b")
	after.add("h", hubFor("*"))
	if got := after.exporters("web"); got != "b,x" {
		t.Errorf("web is exported by %q after a restart, want b,x", got)
	}
	before, now := w.Exports(types.NamespacedName{Namespace: "ns", Name: "web"}), after.Exports(types.NamespacedName{Namespace: "ns", Name: "web"})
	for _, exports := range [][]Export{before, now} {
		slices.SortFunc(exports, func(a, b Export) int { return strings.Compare(a.Service.Name, b.Service.Name) })
	}
	if diff := cmp.Diff(before, now); diff != "" {
		t.Errorf("recalled exports differ: %s", diff)
	}
	got := after.Entry("b").Status
	if got.State != connected || !got.LastSeen.Time.Equal(w.clock.Now()) || got.ClusterUID != "uid-b" || got.Exports != 1 || got.Endpoints != 2 || got.Synced {
		t.Errorf("the entry of b is %+v", got)
	}
	expectCondition(t, after.Entry("b"), clusterset.MemberAccepted, "True", acceptance.ReasonAccepted, "not verified yet")
	expectCondition(t, after.Entry("b"), clusterset.MemberSynced, "Unknown", "Reading", "")
	if after.Settled() {
		t.Error("the Set is settled although no member has been read")
	}
}

// R82: a restart while a member is lost changes nothing; the downtime of this
// server is not the silence of the member, however long it was.
func TestStateAfterARestart(t *testing.T) {
	for _, test := range []struct {
		silent, passed time.Duration
		want           clusterset.MemberState
	}{
		{0, liveness.StaleAfter, connected},
		{0, liveness.DefaultTTL, connected},
		{0, 24 * time.Hour, connected},
		{liveness.DefaultTTL - 1, liveness.DefaultTTL, connected},
		{liveness.DefaultTTL, liveness.DefaultTTL, clusterset.MemberLost},
		{liveness.DefaultTTL, 24 * time.Hour, clusterset.MemberLost},
	} {
		recorded := newHost()
		w, _ := exporting(t, recorded)
		w.clock.Step(test.silent)
		w.tick()
		w.persist(t)
		after := restart(t, recorded, test.passed)
		b := after.add("b")
		if got := after.Entry("b").Status.State; got != test.want {
			t.Errorf("silent for %s, then %s of downtime: it is %s after a restart, want %s", test.silent, test.passed, got, test.want)
		}
		after.clock.Step(liveness.StaleAfter)
		b.Probed(nil, context.DeadlineExceeded)
		if got := after.Entry("b").Status.State; got == connected {
			t.Error("it counts as connected although no probe succeeded since")
		}
		after.probe(b, ownEntry("b", withExports(1)))
		if got := after.Entry("b").Status.State; got != connected {
			t.Errorf("it was seen again, but is %s", got)
		}
	}
}

// R301, R302: this process was frozen, which is as if it had been restarted: its downtime is not
// the silence of members that were not lost before, whatever it notices first. A hub has not
// reached one of the clusters that it relays since.
func TestFreezeIsNotASilence(t *testing.T) {
	for name, notice := range map[string]func(*fixture, *receiver){
		"tick":         func(w *fixture, _ *receiver) { w.tick() },
		"failed probe": func(_ *fixture, b *receiver) { b.Probed(nil, context.DeadlineExceeded) },
	} {
		t.Run(name, func(t *testing.T) {
			w, b := exporting(t, nil)
			h, lost := w.join("h", hubFor("*")), w.join("l")
			connecting := relayedEntry("x", withExports(1))
			connecting.Status.State = clustersetv1alpha1.MemberConnecting
			alive := func() {
				w.clock.Step(feed.ProbeInterval)
				w.probe(b, ownEntry("b", withExports(1)))
				w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
				lost.Probed(nil, context.DeadlineExceeded)
				w.tick()
			}
			for range liveness.DefaultTTL / feed.ProbeInterval {
				alive()
			}
			expect := func(b, x clusterset.MemberState) {
				t.Helper()
				w.expectShown(t, "b", b, b == clusterset.MemberLost)
				w.expectShown(t, "x", x, x == clusterset.MemberLost)
				w.expectShown(t, "l", clusterset.MemberLost, true)
			}
			expect(connected, connected)
			w.clock.Step(3 * time.Hour)
			notice(w, b)
			w.probe(h, ownEntry("h"), connecting)
			expect(connected, connected)
			if got := w.Entry("b").Status; !got.LastSeen.Time.Equal(w.clock.Now()) {
				t.Errorf("b was last seen %s, it is %s", got.LastSeen, w.clock.Now())
			}
			silence := func(passed time.Duration) {
				for end := w.clock.Now().Add(passed); w.clock.Now().Before(end); {
					w.silence(b, feed.ProbeInterval, nil)
					w.probe(h, ownEntry("h"), connecting)
				}
			}
			silence(liveness.DefaultTTL - feed.ProbeInterval)
			expect(clusterset.MemberStale, clusterset.MemberStale)
			silence(feed.ProbeInterval)
			expect(clusterset.MemberLost, clusterset.MemberLost)
			for _, name := range []string{"b", "x"} {
				if w.Entry(name).Status.Overdue {
					t.Errorf("%s is overdue", name)
				}
			}
			w.probe(b, ownEntry("b", withExports(1)))
			w.expectSynced(t, "back", clusterset.ReasonOutdated)
		})
	}
}

// R159: what is known of a member is as old as the freeze: it is read again.
func TestMembersAreReadAgainAfterAFreeze(t *testing.T) {
	w, b := exporting(t, nil)
	w.tick()
	w.clock.Step(time.Hour)
	w.probe(b, ownEntry("b", withExports(1)))
	w.expectShown(t, "b", connected, false)
	w.expectSynced(t, "not read yet", clusterset.ReasonOutdated)
	if !b.feed.(*fakeFeed).reread {
		t.Error("it is not read again")
	}
	w.replace(t, b, exports.Services, exported("b", "web"))
	w.replace(t, b, exports.EndpointSlices, exportedSlice("b", "web", "web-1"))
	w.expectSynced(t, "read", "Synced")
}

// R165: every replica knows the same, and unchanged records are not written.
func TestUnchangedContentIsNotWrittenAgain(t *testing.T) {
	recorded := newHost()
	w, b := exporting(t, recorded)
	w.persist(t)
	if got := recorded.Version(); got != 2 {
		t.Errorf("one Service and one contact took %d writes, want 2", got)
	}
	other, _ := exporting(t, recorded)
	for _, replica := range []*fixture{w, other, restart(t, recorded, time.Second)} {
		if len(replica.peers) == 0 {
			replica.add("b")
		}
		for _, p := range replica.peers {
			replica.recordAll(p)
		}
		replica.persist(t)
	}
	w.upsert(t, b, exportedSlice("b", "web", "web-2"))
	w.clock.Step(time.Hour)
	w.probe(b, ownEntry("b", withExports(1)))
	w.persist(t)
	if got := recorded.Version(); got != 2 {
		t.Errorf("no Service changed, and that took %d writes", got-2)
	}
	w.probe(b, ownEntry("b", withExports(1), func(s *clustersetv1alpha1.MemberStatus) { s.ClusterSetIPCIDRs = []string{"243.1.0.0/16"} }))
	w.persist(t)
	if got := recorded.Version(); got != 3 {
		t.Errorf("another allocation CIDR took %d writes, want 1", got-2)
	}
}

// R166: endpoints come back with the path of their Service, however many members
// relay it, and the first list after a restart changes nothing.
func TestEndpointsAreRestored(t *testing.T) {
	recorded := newHost()
	w := newFixture(t, recorded)
	for _, id := range []string{"g", "h"} {
		hub := w.join(id, hubFor("*"))
		w.replace(t, hub, exports.Services, exported("x", "web", "x"))
		w.upsert(t, hub, exportedSlice("x", "web", "web-1", "x"))
		w.probe(hub, ownEntry(id), relayedEntry("x", withExports(1)))
	}
	w.persist(t)
	after := restart(t, recorded, time.Second)
	for _, id := range []string{"g", "h"} {
		hub := after.add(id, hubFor("*"))
		restored := hub.peer.exports.Export("x", types.NamespacedName{Namespace: "ns", Name: "web"}).Slices
		if len(restored) != 1 || !slices.Equal(restored[0].Spec.Path, []string{"x", id}) {
			t.Errorf("the endpoints of x that %s relays are %v", id, restored)
		}
		after.notified()
		after.replace(t, hub, exports.EndpointSlices, exportedSlice("x", "web", "web-1", "x"))
		if got := after.notified(); got != "" {
			t.Errorf("the first list changed %s", got)
		}
	}
}

// What is restored passes the same validation as what is read.
func TestInvalidEndpointsAreNotRestored(t *testing.T) {
	recorded := newHost()
	w, _ := exporting(t, recorded)
	w.persist(t)
	for _, slices := range recorded.imported {
		slices[0].Spec.AddressType = "FQDN"
		endpoint := slices[0].DeepCopy()
		endpoint.Name, endpoint.Spec.AddressType = "other.b", "IPv4"
		endpoint.Spec.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}}, {Addresses: []string{"10.0.0.3"}}}
		recorded.imported[exports.Ref{Cluster: "b", Service: types.NamespacedName{Namespace: "ns", Name: "web"}}] = append(slices, endpoint)
	}
	after := restart(t, recorded, time.Second)
	after.add("b")
	if got := after.addresses(); got != "[10.0.0.3]" {
		t.Errorf("restored are %s, want [10.0.0.3]", got)
	}
}

// R82, R101: a restart changes nothing for two clusters that claim one ID, also
// while the one that has it is silent, in any order of their Secrets.
func TestOlderClusterKeepsTheIDAfterARestart(t *testing.T) {
	second := func(s *secret.Spec) { s.Name, s.UID = "other", "secret-other" }
	for name, specs := range map[string][]func(*secret.Spec){
		"the older first":   {func(*secret.Spec) {}, second},
		"the younger first": {second, func(*secret.Spec) {}},
	} {
		t.Run(name, func(t *testing.T) {
			recorded := newHost()
			w, _ := exporting(t, recorded)
			w.persist(t)
			after := restart(t, recorded, time.Second, secretFor("b", ""))
			var other *receiver
			for _, spec := range specs {
				if f := after.add("b", spec); f.peer.spec.Name == "other" {
					other = f
				}
			}
			other.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "set", ClaimedAt: epoch.Add(time.Second)})
			after.probe(other, ownEntry("b", withUID("uid-other")))
			after.replace(t, other, exports.Services, exported("b", "api"))
			if after.exporters("web") != "b" || after.exporters("api") != "" {
				t.Errorf("web is exported by %q, api by %q", after.exporters("web"), after.exporters("api"))
			}
			expectCondition(t, after.Entry("secret.other"), clusterset.MemberAccepted, "False", acceptance.ReasonDuplicateID, `that of Secret "member-b", takes precedence`)
			expectCondition(t, after.Entry("b"), clusterset.MemberAccepted, "True", acceptance.ReasonAccepted, "")
			after.persist(t)
			if got := loaded(t, recorded)["b"]; got.UID != "uid-b" || names(got) == "" {
				t.Errorf("recorded is %+v", got)
			}
		})
	}
}

// A Secret may be renamed while the server is down.
func TestRenamedSecretRecallsItsMember(t *testing.T) {
	recorded := newHost()
	w, _ := exporting(t, recorded)
	w.persist(t)
	renamed := secretFor("b", "", func(s *corev1.Secret) { s.Name = "renamed" })
	after := restart(t, recorded, time.Second, renamed, secretFor("c", "", func(s *corev1.Secret) { s.Name = "member-b" }))
	after.add("b", func(s *secret.Spec) { s.Name = "renamed" })
	if after.exporters("web") != "b" {
		t.Errorf("web is exported by %q", after.exporters("web"))
	}
}

// What runs after the lock was released may find that the Secret was deleted in
// the meantime: it must not record again what was removed.
func TestRemovedMemberIsNotRecordedAgain(t *testing.T) {
	recorded := newHost()
	w, b := exporting(t, recorded)
	w.upsert(t, b, exportedSlice("b", "web", "web-2"))
	w.persist(t)
	w.removeSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig()))
	w.recordAll(b.peer)
	b.peer.spec.AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")}
	w.enforcePolicy(b.peer)
	w.persist(t)
	if got, ok := loaded(t, recorded)["b"]; ok {
		t.Errorf("%s is recorded of a member that was removed", names(got))
	}
}

// R169: a replica that cannot reach a member whose Secret was created again leaves alone
// what another replica has recorded of it since.
func TestRecordsOfAMemberThatIsBackAreKept(t *testing.T) {
	recorded := newHost()
	cutOff, _ := exporting(t, recorded)
	cutOff.removeSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig()))
	cutOff.upsertSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig()))
	reaching, _ := exporting(t, recorded)
	reaching.persist(t)
	must(t, cutOff.recorder.TakeOver(t.Context()))
	cutOff.persist(t)
	if got := names(loaded(t, recorded)["b"]); got != "web.b" {
		t.Errorf("recorded are %q", got)
	}
}

// Another Secret for the same ID, which is refused, changes nothing that is recorded of
// the member: neither when it leads to a cluster whose UID changes, nor when it leads to
// the member itself and lists less.
func TestRefusedSecretLeavesRecords(t *testing.T) {
	for name, change := range map[string]func(*fixture, *receiver){
		"another UID": func(w *fixture, other *receiver) {
			other.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "set", ClaimedAt: epoch.Add(time.Second)})
			w.probe(other, ownEntry("b", withUID("uid-other")))
			w.probe(other, ownEntry("b", withUID("uid-third")))
		},
		"the same cluster": func(w *fixture, other *receiver) {
			other.ClaimsRead(identityOf("b"))
			w.probe(other, ownEntry("b", withExports(1)))
			w.upsert(t, other, exported("b", "web"))
			w.remove(t, other, exported("b", "web"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			recorded := newHost()
			w, _ := exporting(t, recorded)
			change(w, w.add("b", func(s *secret.Spec) { s.Name, s.Created = "other", metav1.NewTime(epoch.Add(time.Hour)) }))
			if w.exporters("web") != "b" {
				t.Fatal("the export of b is missing")
			}
			w.persist(t)
			if got := loaded(t, recorded)["b"]; got.UID != "uid-b" || names(got) != "web.b" {
				t.Errorf("recorded of %s are %q", got.UID, names(got))
			}
		})
	}
}

// R166, R301: the endpoints of a service were withdrawn when a replica started. They are not known
// to it, until another one, which knows them, finds that they answer again, and imports them.
func TestEndpointsThatAreImportedAgainAreKnown(t *testing.T) {
	recorded := newHost()
	w, b := exporting(t, recorded)
	w.silence(b, liveness.DefaultTTL, nil)
	w.persist(t)
	web := exports.Ref{Cluster: "b", Service: types.NamespacedName{Namespace: "ns", Name: "web"}}
	imported := recorded.imported
	recorded.imported = map[exports.Ref][]*clusterset.ExportedEndpointSlice{} // withdrawn
	after := restart(t, recorded, 2*time.Minute)
	silent := after.add("b")
	if got := after.addresses(); got != "[]" {
		t.Fatalf("known are %s", got)
	}
	after.EndpointsImported(web)
	if got := after.addresses(); got != "[]" {
		t.Errorf("known are %s, which no replica imported", got)
	}
	recorded.imported = imported // they answer again
	after.notified()
	after.EndpointsImported(web)
	known, changed := after.addresses(), after.notified()
	if known != w.addresses() || changed != "ns/web" {
		t.Errorf("known are %s, want %s; %q was reported as changed", known, w.addresses(), changed)
	}
	if got := after.Entry("b").Status.Endpoints; got != 2 {
		t.Errorf("%d endpoints are shown", got)
	}
	// Some of the slices of the import were deleted.
	fewer := imported[web][0].DeepCopy()
	fewer.Spec.Endpoints = fewer.Spec.Endpoints[:1]
	recorded.imported = map[exports.Ref][]*clusterset.ExportedEndpointSlice{web: {fewer}}
	after.EndpointsImported(web)
	if got := after.addresses(); got != known {
		t.Errorf("known are %s, want %s", got, known)
	}
	// Once the member was read, what is imported says nothing about it.
	after.probe(silent, ownEntry("b", withExports(1)))
	after.replace(t, silent, exports.Services, exported("b", "web"))
	after.replace(t, silent, exports.EndpointSlices, exportedSlice("b", "web", "web-2"))
	recorded.imported = imported
	after.EndpointsImported(web)
	found := after.Exports(web.Service)
	if len(found) != 1 || len(found[0].Slices) != 1 || found[0].Slices[0].Name != "web-2.b" {
		t.Errorf("known are %v", found)
	}
}
