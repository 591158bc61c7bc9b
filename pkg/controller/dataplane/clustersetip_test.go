// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

func withIPs(ips string) func(*multiclusterxv1beta1.ServiceImport) {
	return func(s *multiclusterxv1beta1.ServiceImport) {
		s.Annotations = map[string]string{multicluster.ClusterSetIPAnnotation: ips}
	}
}

// R50: a shared ClusterSet IP is the ingress of a load balancer without node ports, of a
// class that no other controller serves.
func TestSharedIPIsTheIngressOfALoadBalancer(t *testing.T) {
	wanted := variant{ips: wantedIPs(newImport(withIPs("243.1.0.1,fd00::1"))), policy: corev1.ServiceExternalTrafficPolicyLocal}
	service := desiredService(nil, newImport(), wanted)
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer || *service.Spec.LoadBalancerClass != loadBalancerClass ||
		*service.Spec.AllocateLoadBalancerNodePorts || service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		t.Errorf("got spec %+v", service.Spec)
	}
	want := []corev1.LoadBalancerIngress{{IP: "243.1.0.1", IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}, {IP: "fd00::1", IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}
	if diff := cmp.Diff(want, wanted.ingress().Ingress); diff != "" {
		t.Error(diff)
	}
	// All of it is removed again.
	service.Spec.HealthCheckNodePort = 30000
	back := desiredService(service, newImport(), plain(""))
	if diff := cmp.Diff(desiredService(nil, newImport(), plain("")).Spec, back.Spec); diff != "" {
		t.Errorf("not removed: %s", diff)
	}
	headless := newImport(withIPs("243.1.0.1"), func(s *multiclusterxv1beta1.ServiceImport) { s.Spec.Type = multiclusterxv1beta1.Headless })
	if ips := wantedIPs(headless); len(ips) > 0 {
		t.Errorf("got %v for a headless import, want none", ips)
	}
}

// When the host refuses the address, the fallback is used and reported.
func TestRefusedIPIsReportedOnTheService(t *testing.T) {
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
		{name: "no health check node port", from: full, refusal: apierrors.NewInternalError(errors.New("failed to allocate a HealthCheck NodePort 0: range is full")),
			policy: corev1.ServiceExternalTrafficPolicyCluster, ips: 1, problem: "client addresses are not preserved"},
		{name: "no health check node port, during an update", from: full, policy: corev1.ServiceExternalTrafficPolicyCluster, ips: 1, problem: "client addresses are not preserved",
			refusal: fmt.Errorf("update: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
				Message: "failed to allocate a HealthCheck NodePort 0: range is full"}})},
		{name: "a policy on health check node ports", from: full, refusal: apierrors.NewForbidden(services, "x", errors.New("no HealthCheck NodePort is allowed here")), problem: "is allowed here"},
		{name: "a network error with the same words in the URL", from: full, none: true,
			refusal: &url.Error{Op: "Put", URL: "https://10.0.0.1/api/v1/namespaces/healthcheck nodeport/services/x", Err: errors.New("connection refused")}},
		{name: "another internal error with similar words", from: full, none: true, refusal: apierrors.NewInternalError(errors.New("services \"healthcheck\": etcd is down"))},
		{name: "a quota", from: full, refusal: apierrors.NewForbidden(services, "x", errors.New("exceeded quota: none")), problem: "exceeded quota: none"},
		{name: "a quota, with policy Cluster", from: less, refusal: apierrors.NewForbidden(services, "x", errors.New("exceeded quota: none")), problem: "243.1.0.1"},
		{name: "a conflict", from: full, refusal: apierrors.NewConflict(services, "x", errors.New("changed")), none: true},
		{name: "a network error", from: full, refusal: errors.New("connection refused"), none: true},
		{name: "nothing left to try", from: plain(""), refusal: apierrors.NewForbidden(services, "x", errors.New("exceeded quota")), none: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			instead, other := test.from.fallback(test.refusal)
			if other == test.none {
				t.Fatalf("got fallback %t", other)
			}
			if test.none {
				return
			}
			if instead.policy != test.policy || len(instead.ips) != test.ips || !strings.Contains(instead.problem, test.problem) {
				t.Errorf("got fallback %+v", instead)
			}
			service := desiredService(nil, newImport(), instead)
			if got := service.Annotations[multicluster.ClusterSetIPProblemAnnotation]; got != instead.problem {
				t.Errorf("got annotation %q, want %q", got, instead.problem)
			}
			if solved := desiredService(service, newImport(), full); sameService(service, solved) || solved.Annotations[multicluster.ClusterSetIPProblemAnnotation] != "" {
				t.Error("the annotation stays although the problem is solved")
			}
		})
	}
}

// R266: a policy that refuses the address of a Service is reported like one that refuses the
// Service, and the Service works without the address.
func TestRefusedIngressIsReportedOnTheService(t *testing.T) {
	w := newWorld(t)
	w.client.PrependReactor("update", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
		service := action.(clienttesting.UpdateAction).GetObject().(*corev1.Service)
		if action.GetSubresource() != "status" || len(service.Status.LoadBalancer.Ingress) == 0 {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(corev1.Resource("services"), service.Name, errors.New("not in the ClusterSet IP range"))
	})
	w.hold(t, "import", newImport(withIPs("10.9.0.1")))
	w.export(t, exportedBy("east", ready("10.1.0.1")))
	w.sync1(t)
	w.settle(t)
	service := w.existingService(web)
	if problem := service.Annotations[multicluster.ClusterSetIPProblemAnnotation]; !strings.Contains(problem, "10.9.0.1 is unavailable in this cluster") ||
		!strings.Contains(problem, "not in the ClusterSet IP range") {
		t.Errorf("problem is %q", problem)
	}
	if service.Spec.Type != corev1.ServiceTypeClusterIP {
		t.Errorf("type is %s", service.Spec.Type)
	}
}

// A derived Service does not lose an address to a Service of a user, however old: users
// can set any address on an old Service. Otherwise the oldest Service keeps it.
func TestFirstUserOfAnAddress(t *testing.T) {
	service := func(name string, day int, labels map[string]string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name), Labels: labels, CreationTimestamp: metav1.NewTime(time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)),
		}}
	}
	derived := map[string]string{multicluster.ManagedByLabel: multicluster.ManagedBy, multicluster.ServiceNameLabel: "x"}
	existing := service("existing", 5, derived)
	for _, test := range []struct {
		name     string
		existing *corev1.Service
		users    []any
		want     string
	}{
		{"no users", existing, nil, ""},
		{"the existing Service only", existing, []any{existing}, ""},
		{"a user's, before there is a derived Service", nil, []any{service("other", 9, nil)}, "other"},
		{"a user's, before the derived Service has it", existing, []any{service("other", 9, nil)}, "other"},
		{"a user's older one, when the derived Service has it", existing, []any{service("other", 1, nil), existing}, ""},
		{"an older derived Service", existing, []any{service("ours", 1, derived), existing}, "ours"},
		{"a younger derived Service", existing, []any{existing, service("ours", 9, derived)}, ""},
		{"a younger derived Service, before the existing one has it", existing, []any{service("ours", 9, derived)}, "ours"},
		{"equally old, by name", existing, []any{existing, service("earlier", 5, derived), service("later", 5, derived)}, "earlier"},
		{"the oldest of several", existing, []any{service("b", 2, nil), service("a", 3, nil)}, "b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if found := firstUser(test.users, test.existing); found != nil {
				got = found.Name
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// R129: an import whose address another Service has is enqueued when that Service changes
// or is deleted.
func TestImportsWaitingForAnAddressAreEnqueued(t *testing.T) {
	w := newWorld(t)
	w.hold(t, "import", newImport(withIPs("243.1.0.1,fd00::1")))
	w.hold(t, "import", newImport(withIPs("243.1.0.2"), func(s *multiclusterxv1beta1.ServiceImport) { s.Name = "unconcerned" }))
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "old"}, Spec: corev1.ServiceSpec{ExternalIPs: []string{"243.1.0.1"}}}
	withdrawn := desiredService(nil, newImport(func(s *multiclusterxv1beta1.ServiceImport) { s.Name = "withdrawn" }), plain(""))
	withdrawn.Status.LoadBalancer = variant{ips: []string{"fd00::1"}}.ingress()
	for _, test := range []struct {
		service *corev1.Service
		want    string
	}{{foreign, "shop/web"}, {withdrawn, "shop/web,shop/withdrawn"}} {
		w.serviceChanged(test.service)
		if got := w.queued(); got != test.want {
			t.Errorf("%s changed: enqueued %q, want %q", test.service.Name, got, test.want)
		}
	}
}
