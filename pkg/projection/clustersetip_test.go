// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
)

// R130, R133: an import has the shared ClusterSet IP once its derived Service has
// it, and names the cluster that allocated it. Until then the condition Ready
// reports what is missing.
func TestImportHasTheSharedClusterSetIP(t *testing.T) {
	decision := &clusterset.ClusterSetIPDecision{IPs: []string{"243.1.0.1"}, DecidedBy: "east", Since: metav1.NewTime(epoch)}
	derived := func(ingress, problem string) *corev1.Service {
		service := &corev1.Service{Spec: corev1.ServiceSpec{
			ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1", "fd00::1"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
		}}
		if ingress != "" {
			service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ingress}}
		}
		if problem != "" {
			service.Annotations = map[string]string{multicluster.ClusterSetIPProblemAnnotation: problem}
		}
		return service
	}
	for _, test := range []struct {
		name     string
		wants    bool
		decision *clusterset.ClusterSetIPDecision
		derived  *corev1.Service
		ips      string
		shown    string
		ready    string
	}{
		{"no shared IP", false, nil, derived("", ""), "10.0.0.1 fd00::1", "", "True/Ready: ServiceImport is ready to use"},
		{"undecided", true, nil, derived("", ""), "", "", "False/Pending: waiting for the cluster of the founding export to allocate"},
		{"not assigned yet", true, decision, derived("", ""), "fd00::1", "true east 243.1.0.1", "False/Pending: waiting"},
		{"assigned", true, decision, derived("243.1.0.1", ""), "243.1.0.1 fd00::1", "true east 243.1.0.1", "True/Ready: ServiceImport is ready to use"},
		{"assigned with a problem", true, decision, derived("243.1.0.1", "client addresses are lost"), "243.1.0.1 fd00::1", "true east 243.1.0.1", "True/Ready: ServiceImport is ready to use; client addresses are lost"},
		{"unavailable", true, decision, derived("", "a quota"), "fd00::1", "true east 243.1.0.1", "False/ClusterSetIPUnavailable: a quota"},
		{"decided against", true, &clusterset.ClusterSetIPDecision{DecidedBy: "east", Since: metav1.NewTime(epoch)}, derived("", ""), "10.0.0.1 fd00::1", "false  ", "True/Ready"},
	} {
		t.Run(test.name, func(t *testing.T) {
			exports := []member.Export{{Export: clusterset.Export{Service: &clusterset.ExportedService{Spec: clusterset.ExportedServiceSpec{
				Cluster: "east", Service: "web", ExportedAt: metav1.NewTime(epoch), Type: clusterset.ClusterSetIP, UseClusterSetIP: test.wants, ClusterSetIP: test.decision,
				IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			}}}}}
			result := newImport(types.NamespacedName{Namespace: "shop", Name: "web"}, identified, exports, localState{derived: test.derived})
			if got := strings.Join(result.Spec.IPs, " "); got != test.ips {
				t.Errorf("the IPs are %s, want %s", got, test.ips)
			}
			shown := ""
			if use, ok := result.Annotations[multicluster.UseClusterSetIPAnnotation]; ok {
				shown = use + " " + result.Annotations[multicluster.ClusterSetIPAllocatedByAnnotation] + " " + result.Annotations[multicluster.ClusterSetIPAnnotation]
			}
			if shown != test.shown {
				t.Errorf("the annotations are %q, want %q", shown, test.shown)
			}
			condition := result.Status.Conditions[0]
			if got := string(condition.Status) + "/" + condition.Reason + ": " + condition.Message; !strings.HasPrefix(got, test.ready) {
				t.Errorf("the condition is %q, want %q", got, test.ready)
			}
		})
	}
}

// The Ready condition of an import says when its traffic distribution is not
// supported by the host, whether it has a cluster IP or is headless.
func TestUnsupportedTrafficDistributionIsShown(t *testing.T) {
	const problem = `trafficDistribution "PreferSameNode" is not supported by this cluster`
	for importType, ip := range map[clusterset.ServiceType]string{clusterset.ClusterSetIP: "10.0.0.1", clusterset.Headless: corev1.ClusterIPNone} {
		derived := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{multicluster.TrafficDistributionProblemAnnotation: problem}},
			Spec:       corev1.ServiceSpec{ClusterIP: ip, ClusterIPs: []string{ip}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
		}
		exports := []member.Export{{Export: clusterset.Export{Service: &clusterset.ExportedService{Spec: clusterset.ExportedServiceSpec{
			Cluster: "east", Service: "web", ExportedAt: metav1.NewTime(epoch), Type: importType, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		}}}}}
		condition := newImport(types.NamespacedName{Namespace: "shop", Name: "web"}, identified, exports, localState{derived: derived}).Status.Conditions[0]
		if condition.Status != metav1.ConditionTrue || !strings.HasSuffix(condition.Message, problem) {
			t.Errorf("%s: got condition %+v, want True with %q", importType, condition, problem)
		}
	}
}

// R286: an import gets the IP of a decision that was made in the future when that can be
// believed, also if nothing else happens.
func TestDecisionOfTheFutureIsUsedLater(t *testing.T) {
	c := newCluster(t)
	c.queued()
	const skew = 5 * time.Minute // that is accepted
	decision := &clusterset.ClusterSetIPDecision{IPs: []string{"243.1.0.1"}, DecidedBy: "east", Since: metav1.NewTime(c.clock.Now().Add(skew + time.Millisecond))}
	exports := []member.Export{{Export: clusterset.Export{Service: &clusterset.ExportedService{Spec: clusterset.ExportedServiceSpec{
		Cluster: "east", Service: "web", ExportedAt: metav1.NewTime(epoch), Type: clusterset.ClusterSetIP, UseClusterSetIP: true, ClusterSetIP: decision,
	}}}}}
	must(t, c.projectImport(types.NamespacedName{Namespace: "ns", Name: "web"}, exports))
	eventually(t, "the service is computed again", func() bool { return c.queued() == "ns/web" })
}
