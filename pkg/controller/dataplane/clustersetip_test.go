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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
			policy: corev1.ServiceExternalTrafficPolicyCluster, ips: 1, problem: "client addresses are not preserved"},
		{name: "the same as the kube-apiserver says it, while a Service is updated", from: full, policy: corev1.ServiceExternalTrafficPolicyCluster, ips: 1, problem: "client addresses are not preserved",
			refusal: fmt.Errorf("update: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
				Message: "failed to allocate a HealthCheck NodePort 0: range is full"}})},
		{name: "a policy about them", from: full, refusal: apierrors.NewForbidden(services, "x", errors.New("no HealthCheck NodePort is allowed here")), problem: "is allowed here"},
		{name: "the network, on the way to a Service for health checks", from: full, none: true,
			refusal: &url.Error{Op: "Put", URL: "https://10.0.0.1/api/v1/namespaces/healthcheck nodeport/services/x", Err: errors.New("connection refused")}},
		{name: "another internal error, of such a Service", from: full, none: true, refusal: apierrors.NewInternalError(errors.New("services \"healthcheck\": etcd is down"))},
		{name: "a quota", from: full, refusal: apierrors.NewForbidden(services, "x", errors.New("exceeded quota: none")), problem: "exceeded quota: none"},
		{name: "a quota, with the lesser policy", from: less, refusal: apierrors.NewForbidden(services, "x", errors.New("exceeded quota: none")), problem: "243.1.0.1"},
		{name: "a conflict", from: full, refusal: apierrors.NewConflict(services, "x", errors.New("changed")), none: true},
		{name: "the network", from: full, refusal: errors.New("connection refused"), none: true},
		{name: "nothing left to try", from: plain(""), refusal: apierrors.NewForbidden(services, "x", errors.New("exceeded quota")), none: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			instead, other := test.from.fallback(test.refusal)
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

// An address that a Service of ours has is not lost to somebody else's, however old:
// anybody can name any address in an old Service. Otherwise the first keeps it.
func TestAddressIsKeptByWhoHasIt(t *testing.T) {
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
		{"nobody", existing, nil, ""},
		{"it alone", existing, []any{existing}, ""},
		{"somebody else's, before there is one", nil, []any{service("other", 9, nil)}, "other"},
		{"somebody else's, before it has it", existing, []any{service("other", 9, nil)}, "other"},
		{"somebody else's older one, when it has it", existing, []any{service("other", 1, nil), existing}, ""},
		{"an older one of ours", existing, []any{service("ours", 1, derived), existing}, "ours"},
		{"a younger one of ours", existing, []any{existing, service("ours", 9, derived)}, ""},
		{"a younger one of ours, before it has it", existing, []any{service("ours", 9, derived)}, "ours"},
		{"of two equally old the name decides", existing, []any{existing, service("earlier", 5, derived), service("later", 5, derived)}, "earlier"},
		{"the oldest of several", existing, []any{service("b", 2, nil), service("a", 3, nil)}, "b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			if found := firstUser(test.users, test.existing); found != nil {
				got = found.Name
			}
			if got != test.want {
				t.Errorf("%q had it first, want %q", got, test.want)
			}
		})
	}
}

// R129: an import waits for an address that another Service has, ours or not, until
// that is changed or gone.
func TestImportsThatWaitForAnAddressAreLookedAt(t *testing.T) {
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
			t.Errorf("when %s changes, it looks at %q, want %q", test.service.Name, got, test.want)
		}
	}
}
