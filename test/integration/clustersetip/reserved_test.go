// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

const reservationPolicy = "clusterset-ip.mcs-apiserver.io"

// servicesAs returns a client of east for the Services of a namespace.
func servicesAs(t *testing.T, user, namespace string) corev1client.ServiceInterface {
	t.Helper()
	config := expect.Must(east().Plane.AdminConfig())(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	config.WarningHandler = rest.NoWarnings{}
	return expect.Must(kubernetes.NewForConfig(config))(t).CoreV1().Services(namespace)
}

// outcome waits until the policy refuses a dry run if it should, and checks otherwise that
// it does not: policies take effect a moment after they were created.
func outcome(t *testing.T, refused bool, write func(context.Context) error) {
	t.Helper()
	if !refused {
		expect.NoError(t, write(t.Context()))
		return
	}
	expect.Eventually(t, "refusal", func(ctx context.Context) error {
		if err := write(ctx); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), reservationPolicy) {
			return fmt.Errorf("want an error of policy %s: %w", reservationPolicy, errors.Join(err, errors.New("not refused by it")))
		}
		return nil
	})
}

// R266: a user with all rights in a namespace cannot give a Service an address of the ClusterSet
// IP range, in whatever way and form, and can give it any other address.
func TestClusterSetIPRangeIsReserved(t *testing.T) {
	ns := clusters.CreateNamespace(t, "tenant")
	_, err := east().Kubernetes.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "owner"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "ann"}},
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	services := servicesAs(t, "ann", ns)
	existing := expect.Must(east().Service(t.Context(), ns, "balanced", func(s *corev1.Service) {
		s.Spec.Type, s.Spec.LoadBalancerIP = corev1.ServiceTypeLoadBalancer, "243.200.0.1" // an administrator may
	}))(t)
	for _, test := range []struct {
		address string
		refused bool
	}{
		{"243.1.0.7", true}, {"243.255.255.255", true}, {"fd00:243::7", true}, {"fd00:0243:0::0007", true}, {"192.0.2.1", false}, {"2001:db8::1", false}, {"244.0.0.1", false},
	} {
		t.Run("external IP "+test.address, func(t *testing.T) {
			outcome(t, test.refused, func(ctx context.Context) error {
				_, err := services.Create(ctx, &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Name: "web"},
					Spec:       corev1.ServiceSpec{ExternalIPs: []string{test.address}, Ports: []corev1.ServicePort{{Port: 80}}},
				}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return err
			})
		})
		t.Run("load balancer IP "+test.address, func(t *testing.T) {
			outcome(t, test.refused, func(ctx context.Context) error {
				changed := existing.DeepCopy()
				changed.Spec.LoadBalancerIP = test.address
				_, err := services.Update(ctx, changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
				return err
			})
		})
		t.Run("ingress "+test.address, func(t *testing.T) {
			outcome(t, test.refused, func(ctx context.Context) error {
				changed := existing.DeepCopy()
				changed.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: test.address}}
				_, err := services.UpdateStatus(ctx, changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
				return err
			})
		})
	}
	t.Run("addresses that a Service has are kept", func(t *testing.T) {
		changed := existing.DeepCopy()
		changed.Labels = map[string]string{"a": "b"}
		_, err := services.Update(t.Context(), changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		expect.NoError(t, err)
	})
}

// R260, R266: mcs-controller can give derived Services addresses of the range, and no others.
func TestDerivedServicesHaveAddressesOfTheRangeOnly(t *testing.T) {
	ns := clusters.CreateNamespace(t, "derived")
	export(t, east(), ns, "web", "true")
	imported(t, east(), ns, "web", "east")
	services := servicesAs(t, "system:serviceaccount:mcs-system:mcs-apiserver", ns)
	for address, refused := range map[string]bool{"192.0.2.1": true, "243.9.9.9": false} {
		outcome(t, refused, func(ctx context.Context) error {
			service, err := services.Get(ctx, multicluster.DerivedServiceName(ns, "web"), metav1.GetOptions{})
			if err != nil {
				return err
			}
			service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
			_, err = services.UpdateStatus(ctx, service, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		})
	}
}
