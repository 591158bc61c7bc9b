// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// scraper returns a token of a new service account, which may read metrics if granted is set.
func scraper(t *testing.T, name string, granted bool) string {
	t.Helper()
	ns := fleet.CreateNamespace(t, "scrapes-"+name, west())
	accounts, roles := west().Kubernetes.CoreV1().ServiceAccounts(ns), west().Kubernetes.RbacV1()
	expect.Must(accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
	if granted {
		expect.Must(roles.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
		}, metav1.CreateOptions{}))(t)
		t.Cleanup(func() {
			expect.NoError(t, roles.ClusterRoles().Delete(context.Background(), name, metav1.DeleteOptions{}))
		})
		expect.Must(roles.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: name}},
		}, metav1.CreateOptions{}))(t)
		t.Cleanup(func() {
			expect.NoError(t, roles.ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{}))
		})
	}
	token := expect.Must(accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{}))(t)
	return token.Status.Token
}

// R293: both programs serve their metrics with the certificate of the Service, to users that may
// get /metrics, as documented.
func TestMetricsAreServedToAuthorizedUsers(t *testing.T) {
	server := expect.Must(west().APIServers[0].Config())(t)
	tokens := map[string]bool{"": false, scraper(t, "tenant", false): false, scraper(t, "prometheus", true): true}
	for url, metric := range map[string]string{
		server.Host + "/metrics": "mcs_apiserver_cluster_info",
		west().MetricsURL():      `workqueue_depth{name="credential"}`,
	} {
		config := rest.AnonymousClientConfig(server) // verifies the name of the Service
		client := expect.Must(rest.HTTPClientFor(config))(t)
		for token, served := range tokens {
			expect.Eventually(t, "response from "+url, func(ctx context.Context) error {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
				if err != nil {
					return err
				}
				if token != "" {
					request.Header.Set("Authorization", "Bearer "+token)
				}
				response, err := client.Do(request)
				if err != nil {
					return err
				}
				defer response.Body.Close()
				text, err := io.ReadAll(response.Body)
				refused := response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden
				if err == nil && (refused == served || strings.Contains(string(text), metric) != served) {
					err = fmt.Errorf("got %s and %d bytes, served should be %t", response.Status, len(text), served)
				}
				return err
			})
		}
	}
}
