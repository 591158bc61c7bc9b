// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package storagenamespace

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// roleName is the name of the ClusterRole with the permissions that storage needs,
	// and of the RoleBinding that grants them in the storage namespace.
	roleName = "mcs-apiserver:storage"

	description = "State of mcs-apiserver: ServiceExports, ClusterClaims and other objects, as ConfigMaps. " +
		"It is not deleted when mcs-apiserver is uninstalled. Deleting it removes the cluster from its ClusterSet."
)

func desiredNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{"app.kubernetes.io/name": "mcs-apiserver"},
		Annotations: map[string]string{"kubernetes.io/description": description},
	}}
}

// desiredBinding returns the RoleBinding of a service account, or the existing one if it
// does not have to be changed.
func desiredBinding(existing *rbacv1.RoleBinding, account types.NamespacedName) *rbacv1.RoleBinding {
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: roleName}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}}
	if existing == nil {
		return &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: roleName, Labels: map[string]string{"app.kubernetes.io/name": "mcs-apiserver"}},
			RoleRef:    role, Subjects: subjects,
		}
	}
	if existing.RoleRef == role && slices.Equal(existing.Subjects, subjects) {
		return existing
	}
	binding := existing.DeepCopy()
	binding.RoleRef, binding.Subjects = role, subjects
	return binding
}
