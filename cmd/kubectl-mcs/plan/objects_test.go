// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A peer can read exports and renew its own token. Pods cannot get its token.
func TestPeerAccessIsLimited(t *testing.T) {
	got := NewPeerAccess("mcs-system", "east")
	labels := map[string]string{"app.kubernetes.io/managed-by": "kubectl-mcs", "clusterset.mcs-apiserver.io/peer": "east"}
	for _, object := range []metav1.Object{got.Account, got.ClusterBinding, got.Role, got.Binding} {
		if diff := cmp.Diff(labels, object.GetLabels()); diff != "" {
			t.Errorf("%T: %s", object, diff)
		}
	}
	if got.Account.Name != "peer-east" || got.Account.Namespace != "mcs-system" || got.Account.AutomountServiceAccountToken == nil || *got.Account.AutomountServiceAccountToken {
		t.Errorf("service account is %+v", got.Account)
	}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "peer-east", Namespace: "mcs-system"}}
	for name, test := range map[string]struct{ want, got any }{
		"cluster role": {rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "mcs-apiserver:peer"}, got.ClusterBinding.RoleRef},
		"reader":       {subjects, got.ClusterBinding.Subjects},
		"rules":        {[]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{"peer-east"}, Verbs: []string{"create"}}}, got.Role.Rules},
		"role":         {rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: got.Role.Name}, got.Binding.RoleRef},
		"renewer":      {subjects, got.Binding.Subjects},
		"where":        {"mcs-system mcs-system", got.Role.Namespace + " " + got.Binding.Namespace},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s, want (-), got (+): %s", name, diff)
		}
	}
}
