// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/acceptance"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/memory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
)

func loaded(t *testing.T, recorded *memory.Memory) map[string]memory.Member {
	t.Helper()
	members, err := memory.NewRecorder(recorded, nil).Load(t.Context())
	must(t, err)
	return members
}

func names(recorded memory.Member) string {
	var names []string
	for _, object := range recorded.Objects {
		names = append(names, object.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// restart returns another Set with the same memory.
func restart(t *testing.T, recorded *memory.Memory, passed time.Duration) *fixture {
	t.Helper()
	w := newFixture(t, recorded)
	w.clock.Step(passed)
	w.recalled = loaded(t, recorded)
	return w
}

func TestRecordedExportsAreRecalled(t *testing.T) {
	recorded := newMemory(t)
	w, b := exporting(t, recorded)
	h := w.join("h", hubFor("*"))
	w.upsert(t, h, exported("x", "web", "x"))
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
	w.clock.Step(memory.ContactInterval)
	w.probe(b, ownEntry("b", withExports(1)))
	w.probe(h, ownEntry("h"), relayedEntry("x", withExports(1)))
	w.recorder.Flush(t.Context())

	after := restart(t, recorded, memory.ContactInterval)
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
		recorded := newMemory(t)
		w, _ := exporting(t, recorded)
		w.clock.Step(test.silent)
		w.tick()
		w.recorder.Flush(t.Context())
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
		after.recorder.Flush(t.Context())
		if loaded(t, recorded)["b"].Lost {
			t.Error("it was seen again, but is recorded as lost")
		}
		after.recorder.Forget("b")
		after.recorder.Flush(t.Context())
	}
}

// Rule 3: every replica records the same, and unchanged records are not written.
func TestUnchangedContentIsNotWrittenAgain(t *testing.T) {
	recorded := newMemory(t)
	w, b := exporting(t, recorded)
	before := revision(t)
	w.recorder.Flush(t.Context())
	if got := revision(t) - before; got != 1 {
		t.Errorf("one Service and one contact took %d writes, want 1", got)
	}
	other, _ := exporting(t, recorded)
	for _, replica := range []*fixture{w, other} {
		for _, p := range replica.peers {
			replica.recordAll(p)
		}
	}
	before = revision(t)
	w.recorder.Flush(t.Context())
	other.recorder.Flush(t.Context())
	if got := revision(t) - before; got != 0 {
		t.Errorf("nothing changed, and that took %d writes", got)
	}
	w.probe(b, ownEntry("b", withExports(1)))
	w.recorder.Flush(t.Context())
	if got := revision(t) - before; got != 0 {
		t.Errorf("a contact was written before it was due, in %d writes", got)
	}
	w.clock.Step(memory.ContactInterval)
	w.probe(b, ownEntry("b", withExports(1)))
	w.recorder.Flush(t.Context())
	if got := revision(t) - before; got != 1 {
		t.Errorf("a contact took %d writes, want 1", got)
	}
}

// No record is better than an outdated one.
func TestRecordOfAServiceThatGrewTooLargeIsRemoved(t *testing.T) {
	recorded := newMemory(t)
	w, b := exporting(t, recorded)
	w.recorder.Flush(t.Context())
	for i := range 40 {
		slice := exportedSlice("b", "web", fmt.Sprintf("large-%d", i))
		for range 500 {
			slice.Spec.Endpoints = append(slice.Spec.Endpoints, discoveryv1.Endpoint{Addresses: []string{
				fmt.Sprintf("10.%d.%d.%d", rand.N(256), rand.N(256), rand.N(256))}, Zone: randomText(40)})
		}
		w.upsert(t, b, slice)
	}
	w.upsert(t, b, exported("b", "api"))
	if !w.recorder.Flush(t.Context()) {
		t.Fatal("it could not be written")
	}
	if got := names(loaded(t, recorded)["b"]); got != "api.b" {
		t.Errorf("recorded are %q, want the other Service only", got)
	}
}

func randomText(length int) *string {
	text := make([]byte, length)
	for i := range text {
		text[i] = byte('a' + rand.N(26))
	}
	result := string(text)
	return &result
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
			recorded := newMemory(t)
			w, _ := exporting(t, recorded)
			w.recorder.Flush(t.Context())
			after := restart(t, recorded, time.Second)
			memory.ReleaseOrphans(after.recalled, clusterIDs([]any{secretFor("b", "")}))
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
			after.recorder.Flush(t.Context())
			if got := loaded(t, recorded)["b"]; got.UID != "uid-b" || names(got) == "" {
				t.Errorf("recorded is %+v", got)
			}
		})
	}
}

// A Secret may be renamed while the server is down.
func TestRenamedSecretRecallsItsMember(t *testing.T) {
	recorded := newMemory(t)
	w, _ := exporting(t, recorded)
	w.recorder.Flush(t.Context())
	after := restart(t, recorded, time.Second)
	memory.ReleaseOrphans(after.recalled, clusterIDs([]any{secretFor("c", "", func(s *corev1.Secret) { s.Name = "member-b" })}))
	after.add("b", func(s *secret.Spec) { s.Name = "renamed" })
	if after.exporters("web") != "b" {
		t.Errorf("web is exported by %q", after.exporters("web"))
	}
}

// What runs after the lock was released may find that the Secret was deleted in
// the meantime: it must not record again what was removed.
func TestRemovedMemberIsNotRecordedAgain(t *testing.T) {
	recorded := newMemory(t)
	w, b := exporting(t, recorded)
	w.upsert(t, b, exportedSlice("b", "web", "web-2"))
	w.recorder.Flush(t.Context())
	w.removeSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig()))
	w.recordAll(b.peer)
	b.peer.spec.AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")}
	w.enforcePolicy(b.peer)
	w.recorder.Flush(t.Context())
	if got, ok := loaded(t, recorded)["b"]; ok {
		t.Errorf("%s is recorded of a member that was removed", names(got))
	}
}
