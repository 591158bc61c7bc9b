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
)

// states are those of the entry and of what is imported from b.
func (w *world) states() string {
	exports := w.Exports(types.NamespacedName{Namespace: "ns", Name: "web"})
	return fmt.Sprintf("%s/%s", w.Entry("b").Status.State, exports[0].State)
}

// What is imported from a member carries the member's state, and is passed on
// whenever that changes, also when nothing comes from the member at all.
func TestSilentMemberBecomesStaleThenLost(t *testing.T) {
	for name, pass := range map[string]func(*world, *feed){
		"probes fail": func(w *world, b *feed) { w.probed(b, nil, errors.New("no route to host")) },
		"probes hang": func(w *world, _ *feed) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.evaluate() // as keepTime does
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, b := exporting(t, nil)
			lastSeen := w.clock.Now()
			for _, step := range []struct {
				passes time.Duration
				want   string
				news   string
			}{
				{5 * time.Second, "Connected/Connected", ""},
				{staleAfter - 5*time.Second, "Stale/Stale", "ns/web"},
				{5 * time.Second, "Stale/Stale", ""},
				{DefaultTTL - staleAfter - 5*time.Second, "Lost/Lost", "ns/web"},
				{time.Hour, "Lost/Lost", ""},
			} {
				w.clock.Step(step.passes)
				pass(w, b)
				if got := w.states(); got != step.want {
					t.Errorf("after %s it is %s, want %s", w.clock.Since(lastSeen), got, step.want)
				}
				if got := w.news(); got != step.news {
					t.Errorf("after %s %q was passed on, want %q", w.clock.Since(lastSeen), got, step.news)
				}
			}
			if got := w.Exports(types.NamespacedName{Namespace: "ns", Name: "web"})[0].LastSeen; !got.Equal(lastSeen) {
				t.Errorf("last seen %s, want %s", got, lastSeen)
			}
			w.answers(b, own("b", exports(1)))
			if got := w.states(); got != "Connected/Connected" || w.news() != "ns/web" {
				t.Errorf("it is %s when it is back", got)
			}
		})
	}
}

func TestSecretsTTLCounts(t *testing.T) {
	w := newWorld(t, nil)
	b := w.join("b", func(s *spec) { s.ttl = time.Hour })
	w.clock.Step(time.Hour - 1)
	w.probed(b, nil, errors.New("x"))
	if got := w.Entry("b").Status.State; got != clusterset.MemberStale {
		t.Errorf("it is %s before its own TTL has passed", got)
	}
}

func TestReachableSaysWhyNot(t *testing.T) {
	resource := schema.GroupResource{Group: clusterset.GroupName, Resource: "members"}
	for _, test := range []struct {
		err             error
		reason, message string
	}{
		{apierrors.NewUnauthorized("no"), "Unauthorized", "renew it"},
		{apierrors.NewForbidden(resource, "b", errors.New("no")), "Forbidden", "ClusterRole mcs-apiserver:peer"},
		{apierrors.NewNotFound(resource, ""), "NotInstalled", "install mcs-apiserver there"},
		{apierrors.NewServiceUnavailable("starting"), "Unavailable", "starting"},
		{apierrors.NewGenericServerResponse(http.StatusConflict, "get", resource, "", "odd", 0, true), "Refused", "reported a conflict"},
		{context.DeadlineExceeded, "Unreachable", "deadline exceeded"},
		{errors.New(strings.Repeat("x", 10*maxMessage)), "Unreachable", "…"},
	} {
		w, b := exporting(t, nil)
		expectCondition(t, w.Entry("b"), clusterset.MemberReachable, metav1.ConditionTrue, "Answers", "")
		w.probed(b, nil, test.err)
		expectCondition(t, w.Entry("b"), clusterset.MemberReachable, metav1.ConditionFalse, test.reason, test.message)
		if got := len([]rune(meta.FindStatusCondition(w.Entry("b").Status.Conditions, clusterset.MemberReachable).Message)); got > maxMessage {
			t.Errorf("another cluster can make a message of %d characters", got)
		}
		w.feedFailed(b, endpointSlices, test.err)
		expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionFalse, test.reason, test.message)
		w.feedFailed(b, endpointSlices, nil)
		expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionTrue, "Synced", "")
		w.answers(b, own("b", exports(1)))
		expectCondition(t, w.Entry("b"), clusterset.MemberReachable, metav1.ConditionTrue, "Answers", "")
	}
}

func TestMemberThatHasNotAnsweredIsUnknown(t *testing.T) {
	w := newWorld(t, nil)
	b := w.add("b")
	entry := w.Entry("b")
	for _, conditionType := range []string{clusterset.MemberAccepted, clusterset.MemberReachable, clusterset.MemberSynced, clusterset.MemberMutual} {
		if condition := meta.FindStatusCondition(entry.Status.Conditions, conditionType); condition == nil || condition.Status != metav1.ConditionUnknown {
			t.Errorf("%s is %+v", conditionType, condition)
		}
	}
	if entry.Status.State != clusterset.MemberConnecting || entry.Status.LastSeen != nil || w.Settled() {
		t.Errorf("it is shown as %+v", entry.Status)
	}
	w.claimsFailed(b, apierrors.NewForbidden(schema.GroupResource{Resource: "clusterclaims"}, "", errors.New("no")))
	expectCondition(t, w.Entry("b"), clusterset.MemberAccepted, metav1.ConditionUnknown, "Forbidden", "clusterclaims")
}

func TestSecretThatCannotBeUsedIsShown(t *testing.T) {
	w := newWorld(t, nil)
	w.setSecret(t.Context(), secretOf("b.c", goodKubeconfig))
	w.setSecret(t.Context(), secretOf("d", ""))
	if diff := cmp.Diff([]string{"a", "d", "secret.member-b.c"}, w.Names()); diff != "" {
		t.Fatalf("entries: %s", diff)
	}
	for _, name := range []string{"d", "secret.member-b.c"} {
		expectCondition(t, w.Entry(name), clusterset.MemberAccepted, metav1.ConditionFalse, reasonInvalidSecret, "cannot be used")
		expectCondition(t, w.Entry(name), clusterset.MemberReachable, metav1.ConditionFalse, reasonInvalidSecret, "")
		if got := w.Entry(name).Status.State; got != clusterset.MemberRefused {
			t.Errorf("%s is %s", name, got)
		}
	}
	if !w.Settled() {
		t.Error("a Secret that cannot be used is waited for")
	}
}

// A Secret with this cluster's own id must not take the place of its entry.
func TestOwnEntryCannotBeTakenOver(t *testing.T) {
	w := newWorld(t, nil)
	w.join("a")
	if got := w.Entry("a"); got.Status.State != clusterset.MemberLocal {
		t.Errorf("the own entry is %+v", got.Status)
	}
	expectCondition(t, w.Entry("secret.member-a"), clusterset.MemberAccepted, metav1.ConditionFalse, reasonSelf, "")
}

func TestTransitionTimesMoveWithTheStatusOnly(t *testing.T) {
	w, b := exporting(t, nil)
	since := func() time.Time {
		return meta.FindStatusCondition(w.Entry("b").Status.Conditions, clusterset.MemberReachable).LastTransitionTime.Time
	}
	before := since()
	w.clock.Step(time.Second)
	w.answers(b, own("b", exports(1)))
	if !since().Equal(before) {
		t.Error("the time moved although the status did not")
	}
	w.clock.Step(time.Second)
	w.probed(b, nil, errors.New("x"))
	if !since().Equal(w.clock.Now()) {
		t.Errorf("the time is %s, want %s", since(), w.clock.Now())
	}
}

func TestOwnEntrySaysWhatTheOthersCompare(t *testing.T) {
	w := newWorld(t, nil)
	w.join("c")
	h := w.join("h", hubFor("*"))
	w.answers(h, own("h"), relayedEntry("x"))
	w.SetLocal(3, 7)
	want := clusterset.MemberStatus{
		ClusterID: "a", ClusterUID: "uid-a", ClusterSet: "set", State: clusterset.MemberLocal, Exports: 3, Endpoints: 7, Synced: true,
		IDClaimedAt: timePointer(epoch), Peers: []string{"c", "h", "x"},
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
	w.SetIdentity(Identity{})
	if w.Entry("a") != nil {
		t.Error("a cluster without an id has an entry")
	}
}

// R1, R2: a relation that is not mutual is shown in both clusters.
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
		{"it does not list us", "NotListed", `does not list this cluster, "a", as a member: create a Secret for it there`, []string{"c"}, metav1.ConditionFalse},
		{"it lists one that we lack", "ListsOthers", "it lists y, z, which this cluster does not: create Secrets for them here", []string{"a", "z", "y"}, metav1.ConditionFalse},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, nil)
			b := w.join("b")
			w.join("c")
			w.answers(b, own("b", lists(test.peers...)))
			expectCondition(t, w.Entry("b"), clusterset.MemberMutual, test.status, test.reason, test.message)
		})
	}
}

// R1: whoever reads from us without being a member here is shown in our own
// entry, until it stops reading.
func TestUnlistedReaderIsShown(t *testing.T) {
	w := newWorld(t, nil)
	w.join("b")
	w.Heard("mcs-apiserver cluster/b")
	w.Heard("mcs-apiserver cluster/a")
	w.Heard("kubectl/v1.36")
	expectCondition(t, w.Entry("a"), clusterset.MemberMutual, metav1.ConditionTrue, "Mutual", "")
	for range 2 { // also when it comes back
		w.Heard("mcs-apiserver cluster/z")
		w.Heard("mcs-apiserver cluster/y")
		expectCondition(t, w.Entry("a"), clusterset.MemberMutual, metav1.ConditionFalse, "UnlistedReader", "read by y, z, no member here")
		w.clock.Step(readerWindow)
		w.mu.Lock()
		w.evaluate() // as keepTime does
		w.mu.Unlock()
		expectCondition(t, w.Entry("a"), clusterset.MemberMutual, metav1.ConditionTrue, "Mutual", "")
	}
	w.Heard("mcs-apiserver cluster/z")
	w.join("z")
	expectCondition(t, w.Entry("a"), clusterset.MemberMutual, metav1.ConditionTrue, "Mutual", "")
}

func TestReadersAreNotRememberedWithoutLimit(t *testing.T) {
	w := newWorld(t, nil)
	for i := range maxReaders + 10 {
		w.clock.Step(time.Millisecond)
		w.Heard(fmt.Sprintf("mcs-apiserver cluster/r%d", i))
	}
	if _, newest := w.readers[fmt.Sprintf("r%d", maxReaders+9)]; len(w.readers) != maxReaders || !newest {
		t.Errorf("%d readers are remembered, the newest: %v", len(w.readers), newest)
	}
}
