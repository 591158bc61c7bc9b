// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

// R248, R287: nothing of an expelled member is imported, and services are computed again whose
// shared ClusterSet IP it decided or passed on, in whichever cluster exports them.
func TestExpelledMember(t *testing.T) {
	w := newFixture(t, nil)
	for _, id := range []string{"b", "c", "d"} {
		w.upsertSecret(t.Context(), secretFor(id, membertest.ValidKubeconfig()))
		receiver := w.connect(w.peers["member-"+id])
		receiver.ClaimsRead(identity.Claims{ID: id, ClusterSet: "set", ClaimedAt: epoch})
		w.probe(receiver, ownEntry(id, withExports(1)))
		service := exported(id, map[string]string{"b": "own", "c": "adopted", "d": "heard"}[id])
		service.Spec.ClusterSetIP = &clustersetv1alpha1.ClusterSetIPDecision{DecidedBy: "b", Since: metav1.NewTime(epoch)}
		if id == "d" {
			service.Spec.ClusterSetIP.DecidedBy, service.Spec.ClusterSetIP.AdoptedFrom = "unknown", []string{"b"}
		}
		w.replace(t, receiver, exports.Services, service)
	}
	w.notified()

	w.upsertSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig(), func(s *corev1.Secret) {
		s.Annotations = map[string]string{clusterset.ExpelledAnnotation: "true"}
	}))
	expectCondition(t, w.Entry("b"), clusterset.MemberAccepted, metav1.ConditionFalse, clusterset.ReasonExpelled, `expels cluster "b"`)
	if !w.Expelled().Has("b") || w.Expelled().Len() != 1 {
		t.Errorf("expelled are %v, want b", w.Expelled())
	}
	if got := w.Exports(types.NamespacedName{Namespace: "ns", Name: "own"}); len(got) > 0 {
		t.Errorf("exports of the expelled member are %v", got)
	}
	got := w.notified()
	for _, want := range []string{"ns/own", "ns/adopted", "ns/heard"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q was reported as changed, want %s among them", got, want)
		}
	}
}
