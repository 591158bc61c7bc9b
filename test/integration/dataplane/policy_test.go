// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// A user may write derived objects back as they are, and not change anything of them.
func TestUsersMayOnlyRewriteDerivedObjectsUnchanged(t *testing.T) {
	ns := fleet.CreateNamespace(t, "rewritten", west())
	west().ExportService(t, ns, "web", []string{"10.8.0.1"})
	awaitEndpoints(t, west(), ns, "web", from{"west": {"10.8.0.1"}})
	expect.Must(west().Kubernetes.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: named("all"), Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "jane"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}, metav1.CreateOptions{}))(t)
	config := expect.Must(west().Plane.AdminConfig())(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: "jane"}
	jane := expect.Must(kubernetes.NewForConfig(config))(t)
	admin := west().Kubernetes
	derived := multicluster.DerivedServiceName(ns, "web")
	imported := expect.Must(admin.DiscoveryV1().EndpointSlices(ns).List(t.Context(), metav1.ListOptions{LabelSelector: multicluster.ServiceNameLabel + "=web"}))(t).Items[0].Name

	services, slices := jane.CoreV1().Services(ns), jane.DiscoveryV1().EndpointSlices(ns)
	expect.Eventually(t, "permissions of jane", func(ctx context.Context) error {
		_, err := services.Get(ctx, derived, metav1.GetOptions{})
		return err
	})
	allServices, allSlices := admin.CoreV1().Services(ns), admin.DiscoveryV1().EndpointSlices(ns)
	for what, test := range map[string]struct {
		attempt attempt
		allowed bool
	}{
		"unchanged Service":         {update(services, allServices, derived, func(*corev1.Service) {}), true},
		"unchanged EndpointSlice":   {update(slices, allSlices, imported, func(*discoveryv1.EndpointSlice) {}), true},
		"annotated Service":         {update(services, allServices, derived, func(s *corev1.Service) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, "a", "b") }), false},
		"Service without labels":    {update(services, allServices, derived, func(s *corev1.Service) { s.Labels = nil }), false},
		"Service with a finalizer":  {update(services, allServices, derived, func(s *corev1.Service) { s.Finalizers = []string{"example.com/x"} }), false},
		"EndpointSlice, redirected": {update(slices, allSlices, imported, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"10.66.6.6"} }), false},
	} {
		err := test.attempt(t.Context())
		if test.allowed && err != nil || !test.allowed && (err == nil || !strings.Contains(err.Error(), "materialized.mcs-apiserver.io")) {
			t.Errorf("%s: got %v, want allowed: %t", what, err, test.allowed)
		}
	}
}
