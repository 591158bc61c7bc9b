// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
)

// R608: an import shows the preference of the oldest export, which an exported annotation
// cannot forge.
func TestPreferenceIsShownOnTheImport(t *testing.T) {
	preferring := func(minReady int32, tiers ...string) func(*member.Export) {
		return func(e *member.Export) {
			e.Service.Spec.ClusterPreference, e.Service.Spec.PreferenceMinReady = tiers, minReady
			e.Service.Spec.ExportedAnnotations = map[string]string{multicluster.ClusterPreferenceAnnotation: "property:forged"}
		}
	}
	for _, test := range []struct {
		name            string
		export          member.Export
		tiers, minReady string
	}{
		{"none", exportOf("b", preferring(0)), "", ""},
		{"of an older release", exportOf("b"), "", ""},
		{"tiers", exportOf("b", preferring(0, "cluster", "property:region")), "cluster,property:region", "1"},
		{"tiers and minimum", exportOf("b", preferring(3, "cluster")), "cluster", "3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			derived := derivedWith(nil)
			derived.Annotations = map[string]string{multicluster.ActiveTierAnnotation: "all", multicluster.ActiveTierReasonAnnotation: "too few"}
			result := newImport(types.NamespacedName{Namespace: "shop", Name: "web"}, identified, []member.Export{test.export}, localState{derived: derived})
			if active := result.Annotations[multicluster.ActiveTierAnnotation] + " " + result.Annotations[multicluster.ActiveTierReasonAnnotation]; (active == "all too few") != (test.tiers != "") {
				t.Errorf("shows the active tier and reason %q", active)
			}
			tiers, minReady := result.Annotations[multicluster.ClusterPreferenceAnnotation], result.Annotations[multicluster.PreferenceMinReadyAnnotation]
			if tiers != test.tiers || minReady != test.minReady {
				t.Errorf("got tiers %q and minimum %q, want %q and %q", tiers, minReady, test.tiers, test.minReady)
			}
		})
	}
}

// R609
func TestWriterIsWarnedAboutAPreferenceWithoutEffect(t *testing.T) {
	for _, test := range []struct {
		name, tiers, minReady string
		change                func(*corev1.Service)
		warning               string
	}{
		{"an IP", "cluster", "", func(*corev1.Service) {}, ""},
		{"headless", "cluster", "", func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }, "has no effect: the Service is headless"},
		{"headless without preference", "", "", func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }, ""},
		{"minimum", "cluster", "2", func(*corev1.Service) {}, ""},
		{"minimum alone", "", "2", func(*corev1.Service) {}, "clusterset.mcs-apiserver.io/preference-min-ready has no effect without annotation clusterset.mcs-apiserver.io/cluster-preference"},
		{"property", "property:region", "", func(*corev1.Service) {}, ""},
		{"unknown property", "cluster,property:zone", "", func(*corev1.Service) {}, `tier "property:zone" of annotation clusterset.mcs-apiserver.io/cluster-preference is skipped`},
		{"local", "cluster", "", func(s *corev1.Service) {
			s.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
		}, "has no effect: the Service has internalTrafficPolicy Local"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			c.members.SetIdentity(identity.Cluster{ID: "east", ClusterSet: "everywhere", UID: "uid"})
			exported, written := service("web"), exportFor("web")
			test.change(exported)
			written.Annotations = map[string]string{}
			if test.tiers != "" {
				written.Annotations[multicluster.ClusterPreferenceAnnotation] = test.tiers
			}
			if test.minReady != "" {
				written.Annotations[multicluster.PreferenceMinReadyAnnotation] = test.minReady
			}
			c.add(exported, &multiclusterv1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: "region"}, Spec: multiclusterv1.ClusterClaimSpec{Value: "eu"}})
			got := strings.Join(c.Preview(written), "\n")
			if test.warning == "" && got != "" || !strings.Contains(got, test.warning) {
				t.Errorf("got warnings %q, want %q", got, test.warning)
			}
		})
	}
}
