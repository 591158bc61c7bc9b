// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// kubectlAs runs kubectl as a user with the given ClusterRole in the namespace,
// or without a role.
func kubectlAs(t *testing.T, role, ns string) func(args ...string) (string, error) {
	t.Helper()
	user := "user-of-" + role
	if role != "" {
		if _, err := suite.Kubernetes.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := suite.Plane.WriteUserKubeconfig(kubeconfig, user, "people"); err != nil {
		t.Fatal(err)
	}
	return func(args ...string) (string, error) {
		return suite.KubectlAs(t.Context(), kubeconfig, append([]string{"-n", ns}, args...)...)
	}
}

// R16, R40: the default roles include the project's resources; other users have no access.
func TestDefaultRolesIncludeTheResources(t *testing.T) {
	const none, view, edit, admin = "", "view", "edit", "admin"
	for _, group := range []string{"multicluster.x-k8s.io", "multicluster.k8s.io"} {
		for _, role := range []string{none, view, edit, admin} {
			t.Run(group+" "+role, func(t *testing.T) {
				ns := namespace(t)
				run := kubectlAs(t, role, ns)
				kubectl(t, "create", "-f", expect.Manifest(t, "%s", export("multicluster.x-k8s.io/v1beta1", ns, "there", "{}")))
				reads, writes := role != none, role == edit || role == admin
				exports, imports := "serviceexports."+group, "serviceimports."+group
				version := map[string]string{"multicluster.x-k8s.io": "v1beta1", "multicluster.k8s.io": "v1alpha1"}[group]
				for _, step := range []struct {
					allowed bool
					args    []string
				}{
					{reads, []string{"get", exports}},
					{reads, []string{"get", imports}},
					{writes, []string{"create", "-f", expect.Manifest(t, "%s", export(group+"/"+version, ns, "web", "{}"))}},
					{writes, []string{"label", exports, "there", "a=b"}},
					{false, []string{"patch", exports, "there", "--subresource=status", "--type=merge", "-p", `{"status":{}}`}},
					{writes, []string{"delete", exports, "web"}},
					{false, []string{"get", "clusterclaims"}},
					{false, []string{"get", exports, "-n", "default"}},
				} {
					output, err := run(step.args...)
					if step.allowed && err != nil {
						t.Errorf("role %q: kubectl %s must succeed: %s", role, strings.Join(step.args, " "), output)
					}
					if !step.allowed && (err == nil || !strings.Contains(output, "Forbidden")) {
						t.Errorf("role %q: kubectl %s must be forbidden: %v\n%s", role, strings.Join(step.args, " "), err, output)
					}
				}
			})
		}
	}
}

// R454: the default roles include inventories, but not the status of profiles, which cluster managers write.
func TestDefaultRolesIncludeInventories(t *testing.T) {
	manifest := func(ns, name string) string {
		return expect.Manifest(t, "apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ClusterProfile\nmetadata: {name: %[2]s, namespace: %[1]s}\nspec: {clusterManager: {name: example}}\n---\n"+
			"apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: PlacementDecision\nmetadata: {name: %[2]s, namespace: %[1]s}\ndecisions: []\n", ns, name)
	}
	for _, role := range []string{"", "view", "edit", "admin"} {
		t.Run(role, func(t *testing.T) {
			ns := namespace(t)
			run := kubectlAs(t, role, ns)
			kubectl(t, "create", "-f", manifest(ns, "there"))
			reads, writes := role != "", role == "edit" || role == "admin"
			for _, step := range []struct {
				allowed bool
				args    []string
			}{
				{reads, []string{"get", "clusterprofiles"}},
				{reads, []string{"get", "placementdecisions"}},
				{reads, []string{"get", "clusterprofiles", "there", "--subresource=status"}},
				{writes, []string{"create", "-f", manifest(ns, "new")}},
				{writes, []string{"label", "clusterprofiles", "there", "a=b"}},
				{writes, []string{"label", "placementdecisions", "there", "a=b"}},
				{false, []string{"patch", "clusterprofiles", "there", "--subresource=status", "--type=merge", "-p", `{"status":{}}`}},
				{writes, []string{"delete", "clusterprofiles,placementdecisions", "--all"}},
			} {
				output, err := run(step.args...)
				if step.allowed != (err == nil) || !step.allowed && !strings.Contains(output, "Forbidden") {
					t.Errorf("role %q: kubectl %s, allowed %t: %v\n%s", role, strings.Join(step.args, " "), step.allowed, err, output)
				}
			}
		})
	}
}

// R260: the installation has only the permissions that it uses. In its own namespace RBAC
// lets it write all Secrets; a policy restricts that to member Secrets.
func TestServiceAccountIsConfined(t *testing.T) {
	account := "--as=system:serviceaccount:mcs-system:mcs-apiserver"
	for _, question := range [][]string{
		{"create", "pods", "-A"}, {"update", "deployments", "-A"}, {"update", "namespaces"}, {"delete", "namespaces"}, {"list", "secrets", "-A"}, {"get", "secrets/other", "-n", "default"}, {"delete", "secrets/other", "-n", "mcs-system"}, {"claim", "clusterclaims/clusterset.k8s.io"}, {"delete", "clusterclaims/id.k8s.io"},
		{"delete", "apiservices"}, {"update", "apiservices/v1.apps"}, {"get", "pods", "-A"}, {"create", "clusterroles"}, {"list", "configmaps", "-A"},
	} {
		output, err := suite.Kubectl(t.Context(), append([]string{"auth", "can-i", account}, question...)...)
		if err == nil || !strings.HasSuffix(strings.TrimSpace(output), "no") {
			t.Errorf("service account may %s: %s", strings.Join(question, " "), output)
		}
	}
}

// R69: CoreDNS, whose own role does not include ServiceImports, can read them,
// and no other resources of the project.
func TestCoreDNSMayReadImports(t *testing.T) {
	for _, test := range []struct {
		verb, resource, want string
	}{
		{"list", "serviceimports.multicluster.x-k8s.io", "yes"}, {"watch", "serviceimports.multicluster.x-k8s.io", "yes"},
		{"list", "serviceexports.multicluster.x-k8s.io", "no"}, {"list", "members.clusterset.mcs-apiserver.io", "no"},
	} {
		output, err := suite.Kubectl(t.Context(), "auth", "can-i", test.verb, test.resource, "-A", "--as=system:serviceaccount:kube-system:coredns")
		if (err == nil) != (test.want == "yes") || !strings.HasSuffix(strings.TrimSpace(output), test.want) {
			t.Errorf("CoreDNS may %s %s: %s (%v), want %s", test.verb, test.resource, output, err, test.want)
		}
	}
}
