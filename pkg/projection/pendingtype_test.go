// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
)

// R509: an import is Headless until its derived Service has an IP, and says which type it is
// about to have. A new import has its type at once, and is Headless as soon as it should be.
func TestImportIsHeadlessUntilThereIsAnIP(t *testing.T) {
	v4 := []corev1.IPFamily{corev1.IPv4Protocol}
	decision := &clusterset.ClusterSetIPDecision{IPs: []string{"243.1.0.1"}, DecidedBy: "b", Since: metav1.NewTime(epoch)}
	shared := func(e *member.Export) { e.Service.Spec.UseClusterSetIP, e.Service.Spec.ClusterSetIP = true, decision }
	undecided := func(e *member.Export) { e.Service.Spec.UseClusterSetIP = true }
	changing := func(service *corev1.Service, kind corev1.ServiceType) *corev1.Service {
		service.Spec.Type, service.Annotations = kind, map[string]string{multicluster.PendingTypeAnnotation: "any"}
		return service
	}
	withIngress := derivedWith(v4, "10.0.0.1")
	withIngress.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "243.1.0.1"}}
	for _, test := range []struct {
		name    string
		export  member.Export
		derived *corev1.Service
		want    string // type, IPs, pending type, families, and the reason of condition Ready
	}{
		{"new", exportOf("b", families(v4...)), nil, "ClusterSetIP []  [IPv4] Pending"},
		{"new with a derived Service", exportOf("b", families(v4...)), derivedWith(v4, "10.0.0.1"), "ClusterSetIP [10.0.0.1]  [IPv4] Ready"},
		{"derived Service is headless", exportOf("b", families(v4...)), derivedWith(v4, corev1.ClusterIPNone), "Headless [] ClusterSetIP [IPv4] Pending"},
		{"derived Service changes", exportOf("b", families(v4...)), changing(derivedWith(nil), corev1.ServiceTypeExternalName), "Headless [] ClusterSetIP [IPv4] Pending"},
		{"undecided", exportOf("b", families(v4...), undecided), derivedWith(v4, corev1.ClusterIPNone), "Headless []  [IPv4] Pending"},
		{"shared IP not assigned", exportOf("b", families(v4...), shared), changing(derivedWith(v4, "10.0.0.1"), corev1.ServiceTypeLoadBalancer), "Headless [] ClusterSetIP [IPv4] Pending"},
		{"shared IP assigned", exportOf("b", families(v4...), shared), withIngress, "ClusterSetIP [243.1.0.1]  [IPv4] Ready"},
		{"headless from now on", exportOf("b", families(v4...), headless), derivedWith(v4, "10.0.0.1"), "Headless []  [IPv4] Pending"},
		{"becomes headless", exportOf("b", families(v4...), headless), changing(derivedWith(nil), corev1.ServiceTypeExternalName), "Headless []  [IPv4] Pending"},
		{"headless", exportOf("b", families(v4...), headless), derivedWith(v4, corev1.ClusterIPNone), "Headless []  [IPv4] Ready"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := newImport(web, identified, []member.Export{test.export}, localState{derived: test.derived})
			shown := fmt.Sprint(got.Spec.Type, " ", got.Spec.IPs, " ", got.Annotations[multicluster.PendingTypeAnnotation], " ", got.Spec.IPFamilies, " ",
				condition(got, multicluster.ServiceImportReady).Reason)
			if shown != test.want {
				t.Errorf("got %s, want %s: %s", shown, test.want, condition(got, multicluster.ServiceImportReady).Message)
			}
		})
	}
}
