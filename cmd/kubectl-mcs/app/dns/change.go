// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	rbacapply "k8s.io/client-go/applyconfigurations/rbac/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/coredns"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// roleName is the name of the ClusterRole and of its binding for one CoreDNS: a cluster
// may have several. Installations have another one, for the usual service account.
func roleName(w *coredns.Workload) string {
	return "mcs-apiserver:dns:" + w.Namespace + ":" + w.ServiceAccount()
}

const (
	managedByLabel = "app.kubernetes.io/managed-by"
	serviceImports = "serviceimports"
)

var readVerbs = []string{"list", "watch"}

// mayRead reports whether CoreDNS has permission to read ServiceImports.
func mayRead(ctx context.Context, c *cluster.Cluster, s *coredns.Setup) (bool, error) {
	w := s.Workload
	for _, verb := range readVerbs {
		review, err := c.Kubernetes.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + w.Namespace + ":" + w.ServiceAccount(),
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + w.Namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: multiclusterxv1beta1.SchemeGroupVersion.Group, Resource: serviceImports},
		}}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("review the access of ServiceAccount %s/%s: %w", w.Namespace, w.ServiceAccount(), c.WrapError(err, advice))
		}
		if !review.Status.Allowed {
			return false, nil
		}
	}
	return true, nil
}

// grant lets CoreDNS read ServiceImports.
func grant(ctx context.Context, c *cluster.Cluster, w *coredns.Workload) error {
	name, labels := roleName(w), map[string]string{managedByLabel: coredns.Manager}
	options := metav1.ApplyOptions{FieldManager: coredns.Manager, Force: true}
	role := rbacapply.ClusterRole(name).WithLabels(labels).WithRules(rbacapply.PolicyRule().
		WithAPIGroups(multiclusterxv1beta1.SchemeGroupVersion.Group).WithResources(serviceImports).WithVerbs(readVerbs...))
	if _, err := c.Kubernetes.RbacV1().ClusterRoles().Apply(ctx, role, options); err != nil {
		return fmt.Errorf("apply ClusterRole %s: %w", name, c.WrapError(err, advice))
	}
	binding := rbacapply.ClusterRoleBinding(name).WithLabels(labels).
		WithRoleRef(rbacapply.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(name)).
		WithSubjects(rbacapply.Subject().WithKind(rbacv1.ServiceAccountKind).WithNamespace(w.Namespace).WithName(w.ServiceAccount()))
	if _, err := c.Kubernetes.RbacV1().ClusterRoleBindings().Apply(ctx, binding, options); err != nil {
		return fmt.Errorf("apply ClusterRoleBinding %s: %w", name, c.WrapError(err, advice))
	}
	return nil
}

// isGranted reports whether a role was granted by grant.
func isGranted(ctx context.Context, c *cluster.Cluster, w *coredns.Workload) (bool, error) {
	_, err := c.Kubernetes.RbacV1().ClusterRoleBindings().Get(ctx, roleName(w), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get ClusterRoleBinding %s: %w", roleName(w), c.WrapError(err, advice))
	}
	return true, nil
}

// revoke deletes what grant created.
func revoke(ctx context.Context, c *cluster.Cluster, w *coredns.Workload) error {
	name := roleName(w)
	if err := c.Kubernetes.RbacV1().ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ClusterRoleBinding %s: %w", name, c.WrapError(err, advice))
	}
	if err := c.Kubernetes.RbacV1().ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ClusterRole %s: %w", name, c.WrapError(err, advice))
	}
	return nil
}

// write sets a key of a ConfigMap, or deletes it if the text is empty, and returns the
// result. It fails if the ConfigMap was changed since it was read.
func write(ctx context.Context, c *cluster.Cluster, target *coredns.Target, text string) (*corev1.ConfigMap, error) {
	configMaps := c.Kubernetes.CoreV1().ConfigMaps(target.Namespace)
	existing := target.Existing
	var written *corev1.ConfigMap
	var err error
	switch {
	case existing == nil:
		written, err = configMaps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: target.Namespace, Name: target.Name, Labels: map[string]string{managedByLabel: coredns.Manager}},
			Data:       map[string]string{target.Key: text},
		}, metav1.CreateOptions{FieldManager: coredns.Manager})
	case text == "" && existing.Labels[managedByLabel] == coredns.Manager && len(existing.Data) == 1 && len(existing.BinaryData) == 0:
		err = configMaps.Delete(ctx, target.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &existing.UID, ResourceVersion: &existing.ResourceVersion}})
	default:
		value := &text
		if text == "" {
			value = nil
		}
		var patch []byte
		if patch, err = json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": existing.ResourceVersion}, "data": map[string]*string{target.Key: value}}); err != nil {
			return nil, err
		}
		written, err = configMaps.Patch(ctx, target.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: coredns.Manager})
	}
	switch {
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("ConfigMap %s/%s was changed by somebody else at the same time, and was not changed: run the command again (%w)", target.Namespace, target.Name, err)
	case err != nil:
		return nil, fmt.Errorf("change %s: %w", target, c.WrapError(err, advice))
	}
	return written, nil
}

// restore undoes a change that resulted in a ConfigMap, unless others changed it since.
func restore(ctx context.Context, c *cluster.Cluster, target *coredns.Target, written *corev1.ConfigMap) error {
	_, err := write(ctx, c, &coredns.Target{Namespace: target.Namespace, Name: target.Name, Key: target.Key, Existing: written}, target.Text())
	return err
}

// restart replaces the Pods of CoreDNS as `kubectl rollout restart` does.
func restart(ctx context.Context, c *cluster.Cluster, w *coredns.Workload, now time.Time) error {
	patch := []byte(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":` + strconv.Quote(now.Format(time.RFC3339)) + `}}}}}`)
	options := metav1.PatchOptions{FieldManager: coredns.Manager}
	var err error
	if w.Kind == "DaemonSet" {
		_, err = c.Kubernetes.AppsV1().DaemonSets(w.Namespace).Patch(ctx, w.Name, types.StrategicMergePatchType, patch, options)
	} else {
		_, err = c.Kubernetes.AppsV1().Deployments(w.Namespace).Patch(ctx, w.Name, types.StrategicMergePatchType, patch, options)
	}
	if err != nil {
		return fmt.Errorf("restart %s: %w", w, c.WrapError(err, advice))
	}
	return nil
}
