// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

func withIPs(ips string) func(*multiclusterxv1beta1.ServiceImport) {
	return func(s *multiclusterxv1beta1.ServiceImport) {
		s.Annotations = map[string]string{multicluster.ClusterSetIPAnnotation: ips}
	}
}

// R50: one IP in all clusters is the ingress of a load balancer that nobody else
// serves, without node ports.
func TestOneIPIsTheIngressOfALoadBalancer(t *testing.T) {
	wanted := variant{ips: wantedIPs(newImport(withIPs("243.1.0.1,fd00::1"))), policy: corev1.ServiceExternalTrafficPolicyLocal}
	service := desiredService(nil, newImport(), wanted)
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer || *service.Spec.LoadBalancerClass != loadBalancerClass ||
		*service.Spec.AllocateLoadBalancerNodePorts || service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		t.Errorf("the Service is %+v", service.Spec)
	}
	want := []corev1.LoadBalancerIngress{{IP: "243.1.0.1", IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}, {IP: "fd00::1", IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}
	if diff := cmp.Diff(want, wanted.ingress().Ingress); diff != "" {
		t.Error(diff)
	}
	// And back again, without leftovers.
	service.Spec.HealthCheckNodePort = 30000
	back := desiredService(service, newImport(), plain(""))
	if diff := cmp.Diff(desiredService(nil, newImport(), plain("")).Spec, back.Spec); diff != "" {
		t.Errorf("left over: %s", diff)
	}
	headless := newImport(withIPs("243.1.0.1"), func(s *multiclusterxv1beta1.ServiceImport) { s.Spec.Type = multiclusterxv1beta1.Headless })
	if ips := wantedIPs(headless); len(ips) > 0 {
		t.Errorf("a headless import wants %v", ips)
	}
}

// When it is refused, the next best is used, and said.
func TestRefusedIPIsToldOnTheService(t *testing.T) {
	services := schema.GroupResource{Resource: "services"}
	full := variant{ips: []string{"243.1.0.1"}, policy: corev1.ServiceExternalTrafficPolicyLocal}
	less := variant{ips: full.ips, policy: corev1.ServiceExternalTrafficPolicyCluster}
	for _, test := range []struct {
		name    string
		from    variant
		refusal error
		policy  corev1.ServiceExternalTrafficPolicy
		ips     int
		problem string
		none    bool
	}{
		{name: "no port for health checks", from: full, refusal: apierrors.NewInternalError(errors.New("failed to allocate a HealthCheck NodePort 0: range is full")),
			policy: corev1.ServiceExternalTrafficPolicyCluster, ips: 1, problem: "the address of clients is not kept"},
		{name: "a quota", from: full, refusal: apierrors.NewForbidden(services, "x", errors.New("exceeded quota: none")), problem: "exceeded quota: none"},
		{name: "a quota, with the lesser policy", from: less, refusal: apierrors.NewForbidden(services, "x", errors.New("exceeded quota: none")), problem: "243.1.0.1"},
		{name: "a conflict", from: full, refusal: apierrors.NewConflict(services, "x", errors.New("changed")), none: true},
		{name: "the network", from: full, refusal: errors.New("connection refused"), none: true},
		{name: "nothing left to try", from: plain(""), refusal: apierrors.NewForbidden(services, "x", errors.New("exceeded quota")), none: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			instead, other := test.from.nextBest(test.refusal)
			if other == test.none {
				t.Fatalf("there is another way: %t", other)
			}
			if test.none {
				return
			}
			if instead.policy != test.policy || len(instead.ips) != test.ips || !strings.Contains(instead.problem, test.problem) {
				t.Errorf("instead: %+v", instead)
			}
			service := desiredService(nil, newImport(), instead)
			if got := service.Annotations[multicluster.ClusterSetIPProblemAnnotation]; got != instead.problem {
				t.Errorf("the Service says %q", got)
			}
			if mended := desiredService(service, newImport(), full); sameService(service, mended) || mended.Annotations[multicluster.ClusterSetIPProblemAnnotation] != "" {
				t.Error("what was wrong is still said when it is right again")
			}
		})
	}
}
