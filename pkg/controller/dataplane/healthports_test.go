// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// share exports a service with a shared ClusterSet IP from a cluster.
func (h *host) share(t *testing.T, cluster string, number int) string {
	t.Helper()
	name := fmt.Sprintf("%s-%d", cluster, number)
	h.serve(t, "exportedservices", named(name, exportedBy(cluster, nil)).service)
	h.serve(t, "serviceimports", newImport(withIPs(fmt.Sprintf("243.%d.%d.%d", cluster[0]+cluster[1], number/250, number%250+1)), func(s *multiclusterxv1beta1.ServiceImport) { s.Name = name }))
	synctest.Wait()
	return name
}

// policies returns the external traffic policies of the derived Services of a cluster.
func (h *host) policies(t *testing.T, cluster string) map[string]corev1.ServiceExternalTrafficPolicy {
	t.Helper()
	services, err := h.client.CoreV1().Services(web.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	policies := map[string]corev1.ServiceExternalTrafficPolicy{}
	for _, service := range services.Items {
		if name := service.Labels[multicluster.ServiceNameLabel]; strings.HasPrefix(name, cluster+"-") {
			policies[name] = service.Spec.ExternalTrafficPolicy
			if problem := service.Annotations[multicluster.ClusterSetIPProblemAnnotation]; (problem != "") != (service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyCluster) ||
				problem != "" && !strings.Contains(problem, "client addresses are not preserved: 200 other Services of the same member") {
				t.Errorf("problem of %s with policy %s is %q", name, service.Spec.ExternalTrafficPolicy, problem)
			}
		}
	}
	return policies
}

// R495: the derived Services of a member have a limited number of health check node ports. One
// that has it keeps it, and others of the member have the policy Cluster. Those of other members,
// and of this cluster, do not count.
func TestHealthCheckNodePortsOfAMemberAreLimited(t *testing.T) {
	run(t, 0, func(t *testing.T, h *host) {
		const more = 20
		h.serve(t, "members", &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "behind"}, Status: clustersetv1alpha1.MemberStatus{ClusterID: "behind", Path: []string{"behind", "hostile"}}})
		synctest.Wait()
		count := func(cluster string) (local int) {
			for _, policy := range h.policies(t, cluster) {
				if policy == corev1.ServiceExternalTrafficPolicyLocal {
					local++
				}
			}
			return local
		}
		for number := range maxHealthPorts {
			h.share(t, "hostile", number)
		}
		for number := range more {
			h.share(t, "behind", number)
		}
		late := h.share(t, "hostile", maxHealthPorts)
		for number := range maxHealthPorts + more {
			h.share(t, "here", number)
		}
		h.share(t, "east", 0)
		for cluster, want := range map[string]int{"hostile": maxHealthPorts, "behind": 0, "here": maxHealthPorts + more, "east": 1} {
			if got := count(cluster); got != want {
				t.Errorf("%d Services of %s have a health check node port, want %d", got, cluster, want)
			}
		}
		before := h.policies(t, "hostile")
		for range 3 { // nothing changes when they are looked at again
			h.share(t, "hostile", maxHealthPorts)
			h.share(t, "hostile", 0)
			time.Sleep(time.Second)
		}
		if after := h.policies(t, "hostile"); fmt.Sprint(after) != fmt.Sprint(before) || after[late] != corev1.ServiceExternalTrafficPolicyCluster {
			t.Error("policies changed")
		}
		// One that is withdrawn makes room.
		for version, resource := range map[string]string{"exportedservices": "hostile-0.hostile", "serviceimports": "hostile-0"} {
			group := clustersetv1alpha1.SchemeGroupVersion
			if version == "serviceimports" {
				group = multiclusterxv1beta1.SchemeGroupVersion
			}
			if err := h.served.Tracker().Delete(group.WithResource(version), web.Namespace, resource); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		time.Sleep(time.Second)
		h.serve(t, "serviceimports", newImport(withIPs("243.9.9.9"), func(s *multiclusterxv1beta1.ServiceImport) { s.Name = late }))
		synctest.Wait()
		if after := h.policies(t, "hostile"); after[late] != corev1.ServiceExternalTrafficPolicyLocal || count("hostile") != maxHealthPorts {
			t.Errorf("%d have a health check node port, and the policy of the last one is %s", count("hostile"), after[late])
		}
	})
}

// R495: a new leader finds those that have a health check node port before it gives one away.
func TestHealthCheckNodePortsAreFoundByANewLeader(t *testing.T) {
	w := newWorld(t)
	for number := range maxHealthPorts + 1 {
		name := fmt.Sprintf("web-%d", number)
		imported := newImport(withIPs("243.1.0.1"), func(s *multiclusterxv1beta1.ServiceImport) { s.Name = name })
		service := defaulted(desiredService(nil, imported, variant{ips: []string{"243.1.0.1"}, policy: corev1.ServiceExternalTrafficPolicyLocal}))
		w.hold(t, "service", service)
		w.serviceChanged(service)
		w.export(t, named(name, exportedBy("hostile", nil)))
	}
	w.export(t, exportedBy("hostile", nil))
	shared := newImport(withIPs("243.1.0.2"))
	if form := w.variantFor(web, shared, nil); form.policy != corev1.ServiceExternalTrafficPolicyCluster || len(form.ips) != 1 {
		t.Errorf("a new Service gets %+v", form)
	}
	// Those that have it keep it, although there are too many.
	fullName := types.NamespacedName{Namespace: web.Namespace, Name: "web-200"}
	last := w.existingService(fullName)
	if form := w.variantFor(fullName, newImport(withIPs("243.1.0.3")), last); form.policy != corev1.ServiceExternalTrafficPolicyLocal {
		t.Errorf("an existing Service gets %+v", form)
	}
}
