// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/acceptance"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/view"
)

// states returns the states of the entry and of the exports of b.
func (w *fixture) states() string {
	exports := w.Exports(types.NamespacedName{Namespace: "ns", Name: "web"})
	return fmt.Sprintf("%s/%s", w.Entry("b").Status.State, exports[0].State)
}

// Exports carry the state of their member, and are reported as changed whenever it
// changes, also if nothing is read from the member at all.
func TestSilentMemberBecomesStaleThenLost(t *testing.T) {
	for name, pass := range map[string]func(*fixture, *receiver){
		"probes fail": func(w *fixture, b *receiver) { b.Probed(nil, errors.New("no route to host")) },
		"probes hang": func(w *fixture, _ *receiver) {
			w.tick()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, b := exporting(t, nil)
			lastSeen := w.clock.Now()
			for _, step := range []struct {
				passes   time.Duration
				want     string
				notified string
			}{
				{5 * time.Second, "Connected/Connected", ""},
				{liveness.StaleAfter - 5*time.Second, "Stale/Stale", "ns/web"},
				{5 * time.Second, "Stale/Stale", ""},
				{liveness.DefaultTTL - liveness.StaleAfter - 5*time.Second, "Lost/Lost", "ns/web"},
				{time.Hour, "Lost/Lost", ""},
			} {
				for end := w.clock.Now().Add(step.passes); w.clock.Now().Before(end); {
					w.clock.Step(feed.ProbeInterval)
					pass(w, b)
				}
				if got := w.states(); got != step.want {
					t.Errorf("after %s it is %s, want %s", w.clock.Since(lastSeen), got, step.want)
				}
				if got := w.notified(); got != step.notified {
					t.Errorf("after %s %q was reported, want %q", w.clock.Since(lastSeen), got, step.notified)
				}
			}
			if got := w.Exports(types.NamespacedName{Namespace: "ns", Name: "web"})[0].LastSeen; !got.Equal(lastSeen) {
				t.Errorf("last seen %s, want %s", got, lastSeen)
			}
			w.probe(b, ownEntry("b", withExports(1)))
			if got := w.states(); got != "Connected/Connected" || w.notified() != "ns/web" {
				t.Errorf("it is %s after a successful probe", got)
			}
		})
	}
}

func TestSecretOverridesTheTTL(t *testing.T) {
	w := newFixture(t, nil)
	b := w.join("b", func(s *secret.Spec) { s.TTL = time.Hour })
	w.clock.Step(time.Hour - 1)
	b.Probed(nil, errors.New("x"))
	if got := w.Entry("b").Status.State; got != clusterset.MemberStale {
		t.Errorf("it is %s before its own TTL expired", got)
	}
}

func TestUnreachableMemberHasAReason(t *testing.T) {
	resource := schema.GroupResource{Group: clusterset.GroupName, Resource: "members"}
	for _, test := range []struct {
		err             error
		reason, message string
	}{
		{&response.Expired{At: epoch, Err: apierrors.NewUnauthorized("no")}, "Unauthorized", "peer credential expired at"}, // R388
		{apierrors.NewUnauthorized("no"), "Unauthorized", "replace it there"},
		{apierrors.NewForbidden(resource, "b", errors.New("no")), "Forbidden", "ClusterRole mcs-apiserver:peer"},
		{apierrors.NewNotFound(resource, ""), "NotInstalled", "install mcs-apiserver there"},
		{apierrors.NewServiceUnavailable("starting"), "Unavailable", "starting"},
		{apierrors.NewGenericServerResponse(http.StatusConflict, "get", resource, "", "odd", 0, true), "Refused", "reported a conflict"},
		{context.DeadlineExceeded, "Unreachable", "deadline exceeded"},
		{errors.New(strings.Repeat("x", 10*view.MaxMessage)), "Unreachable", "…"},
	} {
		w, b := exporting(t, nil)
		expectCondition(t, w.Entry("b"), clusterset.MemberReachable, metav1.ConditionTrue, "Reachable", "")
		b.Probed(nil, test.err)
		expectCondition(t, w.Entry("b"), clusterset.MemberReachable, metav1.ConditionFalse, test.reason, test.message)
		if got := len([]rune(meta.FindStatusCondition(w.Entry("b").Status.Conditions, clusterset.MemberReachable).Message)); got > view.MaxMessage {
			t.Errorf("another cluster can make a message of %d characters", got)
		}
		b.ReadFailed(exports.EndpointSlices, test.err)
		expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionFalse, test.reason, test.message)
		b.ReadFailed(exports.EndpointSlices, nil)
		expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionTrue, "Synced", "")
		w.probe(b, ownEntry("b", withExports(1)))
		expectCondition(t, w.Entry("b"), clusterset.MemberReachable, metav1.ConditionTrue, "Reachable", "")
	}
}

func TestMemberIsUnknownUntilItIsRead(t *testing.T) {
	w := newFixture(t, nil)
	b := w.add("b")
	entry := w.Entry("b")
	for _, conditionType := range []string{clusterset.MemberAccepted, clusterset.MemberReachable, clusterset.MemberSynced, clusterset.MemberMutual} {
		if condition := meta.FindStatusCondition(entry.Status.Conditions, conditionType); condition == nil || condition.Status != metav1.ConditionUnknown {
			t.Errorf("%s is %+v", conditionType, condition)
		}
	}
	if entry.Status.State != clusterset.MemberConnecting || entry.Status.LastSeen != nil || w.Settled() {
		t.Errorf("the entry is %+v", entry.Status)
	}
	b.ClaimsFailed(apierrors.NewForbidden(schema.GroupResource{Resource: "clusterclaims"}, "", errors.New("no")))
	expectCondition(t, w.Entry("b"), clusterset.MemberAccepted, metav1.ConditionUnknown, "Forbidden", "clusterclaims")
}

func TestInvalidSecretIsReported(t *testing.T) {
	w := newFixture(t, nil)
	w.upsertSecret(t.Context(), secretFor("b.c", membertest.ValidKubeconfig()))
	w.upsertSecret(t.Context(), secretFor("d", ""))
	if diff := cmp.Diff([]string{"a", "d", "secret.member-b.c"}, w.Names()); diff != "" {
		t.Fatalf("entries: %s", diff)
	}
	for _, name := range []string{"d", "secret.member-b.c"} {
		expectCondition(t, w.Entry(name), clusterset.MemberAccepted, metav1.ConditionFalse, acceptance.ReasonInvalidSecret, "is invalid")
		expectCondition(t, w.Entry(name), clusterset.MemberReachable, metav1.ConditionFalse, acceptance.ReasonInvalidSecret, "")
		if got := w.Entry(name).Status.State; got != clusterset.MemberRefused {
			t.Errorf("%s is %s", name, got)
		}
	}
	if !w.Settled() {
		t.Error("the Set waits for an invalid Secret")
	}
}

// A Secret with the ID of this cluster must not replace its own entry.
func TestOwnEntryCannotBeReplaced(t *testing.T) {
	w := newFixture(t, nil)
	w.join("a")
	if got := w.Entry("a"); got.Status.State != clusterset.MemberLocal {
		t.Errorf("the own entry is %+v", got.Status)
	}
	expectCondition(t, w.Entry("secret.member-a"), clusterset.MemberAccepted, metav1.ConditionFalse, acceptance.ReasonSelf, "")
}

func TestTransitionTimesChangeOnlyWithTheStatus(t *testing.T) {
	w, b := exporting(t, nil)
	since := func() time.Time {
		return meta.FindStatusCondition(w.Entry("b").Status.Conditions, clusterset.MemberReachable).LastTransitionTime.Time
	}
	before := since()
	w.clock.Step(time.Second)
	w.probe(b, ownEntry("b", withExports(1)))
	if !since().Equal(before) {
		t.Error("the time changed although the status did not")
	}
	w.clock.Step(time.Second)
	b.Probed(nil, errors.New("x"))
	if !since().Equal(w.clock.Now()) {
		t.Errorf("the time is %s, want %s", since(), w.clock.Now())
	}
}

func TestOwnEntryHasWhatOtherClustersCompare(t *testing.T) {
	w := newFixture(t, nil)
	w.join("c")
	h := w.join("h", hubFor("*"))
	w.probe(h, ownEntry("h"), relayedEntry("x"))
	w.ReplaceLocal(exports.Share{}, exports.Share{Exports: 3, Endpoints: 7})
	want := clusterset.MemberStatus{
		ClusterID: "a", ClusterUID: "uid-a", ClusterSet: "set", State: clusterset.MemberLocal, Exports: 3, Endpoints: 7, Synced: true,
		IDClaimedAt: view.Timestamp(epoch), Peers: []string{"c", "h", "x"},
	}
	got := w.Entry("a")
	status := got.Status
	status.Conditions = nil
	if diff := cmp.Diff(want, status); diff != "" {
		t.Error(diff)
	}
	if got.UID != "uid-a" || !got.CreationTimestamp.Time.Equal(epoch) {
		t.Errorf("metadata is %+v", got.ObjectMeta)
	}
	w.SetIdentity(identity.Cluster{})
	if w.Entry("a") != nil {
		t.Error("a cluster without an ID has an entry")
	}
}

// R1, R2: a membership that is not mutual is reported in both clusters.
func TestMutual(t *testing.T) {
	lists := func(ids ...string) func(*clustersetv1alpha1.MemberStatus) {
		return func(s *clustersetv1alpha1.MemberStatus) { s.Peers = ids }
	}
	for _, test := range []struct {
		name, reason, message string
		peers                 []string
		status                metav1.ConditionStatus
	}{
		{"both list each other", "Mutual", "", []string{"a", "c"}, metav1.ConditionTrue},
		{"the member does not list this cluster", "NotListed", `member does not list this cluster, "a": run kubectl mcs join with this cluster and the member; or invite the member (kubectl mcs invite b), which accepts; or create a Secret for this cluster there`, []string{"c"}, metav1.ConditionFalse},
		{"the member lists an unknown cluster", "ListsOthers", "member lists clusters that are not members here: y, z; run kubectl mcs join with all clusters, exchange invitations with them (kubectl mcs invite), or create Secrets for them in this cluster; or, if the member is a hub for them, list them in relay-for of its Secret here, and bind service account peer-a there to ClusterRole mcs-apiserver:relay", []string{"a", "z", "y"}, metav1.ConditionFalse},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newFixture(t, nil)
			b := w.join("b")
			w.join("c")
			w.probe(b, ownEntry("b", lists(test.peers...)))
			expectCondition(t, w.Entry("b"), clusterset.MemberMutual, test.status, test.reason, test.message)
		})
	}
}

// R1: a cluster that reads from this one without being a member is reported in the
// own entry until it stops reading.
func TestUnlistedReaderIsReported(t *testing.T) {
	w := newFixture(t, nil)
	w.join("b")
	w.ObserveReader("b")
	w.ObserveReader("a")
	expectCondition(t, w.Entry("a"), clusterset.MemberMutual, metav1.ConditionTrue, "Mutual", "")
	for range 2 { // also when it comes back
		w.ObserveReader("z")
		w.ObserveReader("y")
		expectCondition(t, w.Entry("a"), clusterset.MemberMutual, metav1.ConditionFalse, "UnlistedReader", "read by clusters that are not members here: y, z; let them invite this cluster, and accept (kubectl mcs invite, kubectl mcs accept)")
		w.clock.Step(readerWindow)
		w.tick()
		expectCondition(t, w.Entry("a"), clusterset.MemberMutual, metav1.ConditionTrue, "Mutual", "")
	}
	w.ObserveReader("z")
	w.join("z")
	expectCondition(t, w.Entry("a"), clusterset.MemberMutual, metav1.ConditionTrue, "Mutual", "")
}
