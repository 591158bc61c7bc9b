// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/acceptance"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

// R310: a member whose Secret becomes invalid is silent: first stale, and lost after its
// TTL. Its exports stay.
func TestMemberWhoseSecretBreaksIsSilent(t *testing.T) {
	recorded := newHost()
	w := newFixture(t, recorded)
	update := func(kubeconfig string, changes ...func(*corev1.Secret)) {
		source := secretFor("b", kubeconfig)
		for _, change := range changes {
			change(source)
		}
		w.upsertSecret(t.Context(), source)
	}
	update(membertest.ValidKubeconfig())
	b := w.connect(w.peers["member-b"])
	b.ClaimsRead(identityOf("b"))
	w.probe(b, ownEntry("b", withExports(1)))
	w.replace(t, b, exports.Services, exported("b", "web"))
	w.replace(t, b, exports.EndpointSlices, exportedSlice("b", "web", "web-1"))
	w.persist(t)
	expect := func(state clusterset.MemberState) {
		t.Helper()
		entry := w.Entry("b")
		if entry.Status.State != state || w.exporters("web") != "b" {
			t.Errorf("it is %s and web is exported by %q, want %s", entry.Status.State, w.exporters("web"), state)
		}
		expectCondition(t, entry, clusterset.MemberAccepted, metav1.ConditionTrue, acceptance.ReasonAccepted, "")
		expectCondition(t, entry, clusterset.MemberReachable, metav1.ConditionFalse, acceptance.ReasonInvalidSecret, "kubeconfig")
	}
	pass := func(passed time.Duration) {
		for end := w.clock.Now().Add(passed); w.clock.Now().Before(end); {
			w.clock.Step(feed.ProbeInterval)
			w.tick()
		}
	}
	update("broken")
	expect(connected)
	if w.peers["member-b"].receiver != nil {
		t.Error("it is still read")
	}
	pass(liveness.StaleAfter)
	expect(clusterset.MemberStale)
	pass(liveness.DefaultTTL - liveness.StaleAfter)
	expect(clusterset.MemberLost)
	if !w.Entry("b").Status.Expired {
		t.Error("it has not expired")
	}
	update(membertest.ValidKubeconfig())
	b = w.connect(w.peers["member-b"])
	w.probe(b, ownEntry("b", withExports(1)))
	if got := w.Entry("b").Status.State; got != connected {
		t.Errorf("it is %s after the Secret was corrected", got)
	}
	update(membertest.ValidKubeconfig(), func(s *corev1.Secret) { s.Data[clusterset.MemberSecretClusterID] = nil })
	expectCondition(t, w.Entry("b"), clusterset.MemberReachable, metav1.ConditionFalse, acceptance.ReasonInvalidSecret, "cluster-id")
	if got := w.Entry("b").Status.State; got != connected || w.exporters("web") != "b" {
		t.Errorf("without its ID, it is %s, and web is exported by %q", got, w.exporters("web"))
	}
	update(membertest.ValidKubeconfig())
	b = w.connect(w.peers["member-b"])
	w.probe(b, ownEntry("b", withExports(1)))
	w.persist(t)
	w = restart(t, recorded, time.Second)
	update("broken")
	if got := w.Entry("b").Status.State; got != connected || w.exporters("web") != "b" {
		t.Errorf("after a restart, it is %s, and web is exported by %q", got, w.exporters("web"))
	}
}

// R310: a Secret that expels a member does, even if the rest of it is invalid.
func TestBrokenSecretExpels(t *testing.T) {
	w := newFixture(t, nil)
	w.upsertSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig()))
	b := w.connect(w.peers["member-b"])
	b.ClaimsRead(identityOf("b"))
	w.probe(b, ownEntry("b"))
	broken := secretFor("b", "broken")
	broken.Annotations = map[string]string{clusterset.ExpelledAnnotation: "true"}
	w.upsertSecret(t.Context(), broken)
	if got := w.Entry("b").Status.State; got != clusterset.MemberRefused {
		t.Errorf("it is %s", got)
	}
}
