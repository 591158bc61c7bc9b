// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flowcontrol tests that callers of mcs-apiserver do not block the requests that
// they wait for, on a kube-apiserver with few seats.
package flowcontrol

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{
		Names: []string{"east"},
		Configure: func(_ string, plane *controlplane.Config, _ *installation.Config) {
			plane.APIServerFlags = []string{"--max-requests-inflight=10", "--max-mutating-requests-inflight=10"}
		},
	})
}

// caller returns a client of a service account that may read ServiceExports.
func caller(t *testing.T) versioned.Interface {
	t.Helper()
	const ns, name = "default", "caller"
	client := clusters.Clusters[0].Kubernetes
	expect.Must(client.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	expect.Must(client.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: ns}},
	}, metav1.CreateOptions{}))(t)
	token := expect.Must(client.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t)
	config := rest.AnonymousClientConfig(expect.Must(clusters.Clusters[0].Plane.AdminConfig())(t))
	config.BearerToken, config.QPS = token.Status.Token, -1
	return expect.Must(versioned.NewForConfig(config))(t)
}

// R152: many more callers than the kube-apiserver has seats are all answered, although
// each request makes mcs-apiserver ask the same kube-apiserver for an access review.
func TestCallersDoNotBlockAccessReviews(t *testing.T) {
	const callers, each = 60, 10
	exports := caller(t).MulticlusterXV1beta1().ServiceExports("default")
	expect.Eventually(t, "permission", func(ctx context.Context) error {
		_, err := exports.List(ctx, metav1.ListOptions{})
		return err
	})
	begun := time.Now()
	group, ctx := errgroup.WithContext(t.Context())
	for number := range callers {
		group.Go(func() error {
			for i := range each {
				// Reviews of different names are not cached.
				if _, err := exports.Get(ctx, fmt.Sprintf("export-%d-%d", number, i), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					return fmt.Errorf("after %s: %w", time.Since(begun).Round(time.Millisecond), err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d callers sent %d requests each in %s", callers, each, time.Since(begun).Round(time.Millisecond))
	metrics := expect.Must(clusters.Clusters[0].Kubectl(t.Context(), "get", "--raw", "/metrics"))(t)
	for _, schema := range []string{"mcs-apiserver", "mcs-apiserver-urgent"} {
		if !strings.Contains(metrics, fmt.Sprintf(`apiserver_flowcontrol_dispatched_requests_total{flow_schema=%q,priority_level="mcs-apiserver"}`, schema)) {
			t.Errorf("no request used FlowSchema %s", schema)
		}
	}
}
