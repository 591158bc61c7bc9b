// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

var (
	group = []string{"multicluster.k8s.io"}
	what  = []string{"clusterclaims"}
	write = rbacv1.PolicyRule{APIGroups: group, Resources: what, Verbs: []string{"get", "create", "update", "patch", "delete", "deletecollection"}}
)

// mayClaim returns a rule that allows asserting the given claims.
func mayClaim(names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: group, Resources: what, ResourceNames: names, Verbs: []string{"claim"}}
}

// as runs kubectl in east as a user with exactly these permissions.
func as(t *testing.T, user string, rules ...rbacv1.PolicyRule) func(args ...string) (string, error) {
	t.Helper()
	subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}
	if parts := strings.Split(user, ":"); len(parts) == 4 {
		subject = rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: parts[2], Name: parts[3]}
	}
	name := "test:" + strings.ReplaceAll(user, ":", "-")
	rbac := east().Kubernetes.RbacV1()
	_, err := rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	expect.NoError(t, err)
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: []rbacv1.Subject{subject},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	t.Cleanup(func() {
		expect.NoError(t, rbac.ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{}))
		expect.NoError(t, rbac.ClusterRoles().Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
	return func(args ...string) (string, error) {
		return run(t, append([]string{"--context", "east", "--as", user}, args...)...)
	}
}

// R114, R115: a user who may write claims may not assert the well-known ones. That
// requires the verb claim on the name, and the error says so.
func TestWellKnownClaimsNeedTheVerbClaim(t *testing.T) {
	before := claimed(t, east(), id)
	t.Cleanup(func() { expect.NoError(t, east().SetClaim(context.Background(), id, "east", nil)) })
	names := 0
	rename := func(t *testing.T) []string {
		names++
		return []string{"apply", "--server-side", "--force-conflicts", "-f", manifest(t, id, fmt.Sprintf("renamed-%d", names))}
	}
	enter := func(t *testing.T) []string { return []string{"create", "-f", manifest(t, setName, "somewhere")} }
	exit := func(*testing.T) []string { return []string{"delete", "clusterclaim", setName} }
	other := func(t *testing.T) []string { return []string{"apply", "-f", manifest(t, "region.example.com", "x")} }
	label := func(*testing.T) []string { return []string{"label", "clusterclaim", id, "a=b", "--overwrite"} }
	type step struct {
		what    func(*testing.T) []string
		allowed bool
	}
	const yes, no = true, false
	for _, test := range []struct {
		name, user string
		rules      []rbacv1.PolicyRule
		steps      []step
	}{
		{"create but not claim", "jane", []rbacv1.PolicyRule{write}, []step{{rename, no}, {enter, no}, {other, yes}, {label, yes}}},
		{"claim but not create", "june", []rbacv1.PolicyRule{mayClaim(id, setName)}, []step{{rename, no}, {enter, no}, {other, no}}},
		{"claim the ClusterSet alone", "joan", []rbacv1.PolicyRule{write, mayClaim(setName)}, []step{{rename, no}, {enter, yes}, {exit, yes}}},
		{"claim the id alone", "jean", []rbacv1.PolicyRule{write, mayClaim(id)}, []step{{rename, yes}, {enter, no}}},
		{"a service account", "system:serviceaccount:default:joiner", []rbacv1.PolicyRule{write, mayClaim(id, setName)}, []step{{rename, yes}, {enter, yes}, {exit, yes}}},
		{"a service account without", "system:serviceaccount:default:other", []rbacv1.PolicyRule{write}, []step{{rename, no}, {enter, no}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			kubectlAs := as(t, test.user, test.rules...)
			for _, step := range test.steps {
				args := step.what(t)
				output, err := kubectlAs(args...)
				if (err == nil) != step.allowed {
					t.Errorf("kubectl %s as %s: %v\n%s", strings.Join(args, " "), test.user, err, output)
				}
				// R115: the error names the missing permission.
				if slices.Contains(test.rules[0].Verbs, "create") && !step.allowed {
					expect.Contains(t, output, fmt.Sprintf("user %q", test.user), `the verb "claim" on resource "clusterclaims" in API group "multicluster.k8s.io" with resourceName`, "mcs-apiserver:claims")
				}
			}
		})
	}
	t.Run("removing requires the verb", func(t *testing.T) {
		expect.NoError(t, east().SetClaim(t.Context(), setName, "somewhere", nil))
		t.Cleanup(func() { expect.NoError(t, east().Unclaim(context.Background())) })
		kubectlAs := as(t, "judy", write)
		for _, args := range [][]string{{"delete", "clusterclaim", setName}, {"delete", "--raw", "/apis/multicluster.k8s.io/v1/clusterclaims"}} {
			if output, err := kubectlAs(args...); err == nil {
				t.Errorf("kubectl %v: %s", args, output)
			}
		}
		if claimed(t, east(), setName) != "somewhere" || claimed(t, east(), id) == "" {
			t.Errorf("claims were deleted; the ID was %q", before)
		}
	})
}

// R114: the installed ClusterRole is sufficient, and no user has it by default.
func TestInstalledRoleIsSufficientToClaim(t *testing.T) {
	bind := func(user, role string) {
		t.Helper()
		_, err := east().Kubernetes.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "test:" + user}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}, metav1.CreateOptions{})
		expect.NoError(t, err)
		t.Cleanup(func() {
			expect.NoError(t, east().Kubernetes.RbacV1().ClusterRoleBindings().Delete(context.Background(), "test:"+user, metav1.DeleteOptions{}))
		})
	}
	bind("jill", "mcs-apiserver:claims")
	kubectl(t, "--context", "east", "--as", "jill", "create", "-f", manifest(t, setName, "somewhere"))
	kubectl(t, "--context", "east", "--as", "jill", "delete", "clusterclaim", setName)
	for _, role := range []string{"view", "edit", "admin"} {
		user := "someone-with-" + role
		bind(user, role)
		expect.Eventually(t, "read access of "+user, func(context.Context) error { // the roles are effective
			output, err := run(t, "--context", "east", "auth", "can-i", "get", "serviceimports.multicluster.x-k8s.io", "--as", user)
			if err != nil {
				err = errors.New(output)
			}
			return err
		})
		output, _ := run(t, "--context", "east", "auth", "can-i", "claim", "clusterclaims/id.k8s.io", "--as", user)
		if !strings.HasSuffix(strings.TrimSpace(output), "no") {
			t.Errorf("user with role %s may assert claims: %s", role, output)
		}
	}
}
