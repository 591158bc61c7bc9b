// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/configmap"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
)

// deleteNamespace deletes the storage namespace and waits until it is gone.
func (h *harness) deleteNamespace(t *testing.T) {
	t.Helper()
	namespaces := h.client.CoreV1().Namespaces()
	if err := namespaces.Delete(t.Context(), h.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		_, err := namespaces.Get(ctx, h.namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	}); err != nil {
		t.Fatalf("namespace is not deleted: %v", err)
	}
}

// restore creates the namespace and its ConfigMaps again.
func (h *harness) restore(t *testing.T, backup *corev1.ConfigMapList) {
	t.Helper()
	if _, err := h.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: h.namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, item := range backup.Items {
		item.ObjectMeta = metav1.ObjectMeta{Name: item.Name, Labels: item.Labels, Annotations: item.Annotations}
		if _, err := h.client.CoreV1().ConfigMaps(h.namespace).Create(t.Context(), &item, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

// The history of the host still contains the deletions. A client that resumes its
// watch must not receive them.
func TestRestoredNamespaceDoesNotReportThatItsObjectsWereDeleted(t *testing.T) {
	h := newHarness(t)
	h.create(t, "web")
	before, err := h.list(t, storage.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	resume := storage.ListOptions{ResourceVersion: before.ResourceVersion, Predicate: storage.Everything, Recursive: true}
	running, err := h.Watch(t.Context(), "/pods", resume)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Stop()
	backup, err := h.client.CoreV1().ConfigMaps(h.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if last := backup.Items[len(backup.Items)-1].Name; last != marker.Name {
		t.Fatalf("%s is restored after the marker", last)
	}
	h.deleteNamespace(t)
	h.restore(t, backup)
	h.open(t)

	for event := range running.ResultChan() {
		if event.Type == watch.Deleted {
			t.Error("the running watch reported a deletion")
		}
	}
	if _, err := h.Watch(t.Context(), "/pods", resume); !apierrors.IsResourceExpired(err) {
		t.Errorf("resumed watch: got %v, want 410", err)
	}
	after, err := h.list(t, storage.ListOptions{})
	if err != nil || len(after.Items) != 1 || after.Items[0].Name != "web" {
		t.Fatalf("got %+v, %v", after.Items, err)
	}
	resume.ResourceVersion = after.ResourceVersion
	watcher, err := h.Watch(t.Context(), "/pods", resume)
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	h.create(t, "next")
	if event := <-watcher.ResultChan(); event.Type != watch.Added || event.Object.(*example.Pod).Name != "next" {
		t.Errorf("got %+v", event)
	}
}

func TestStorageIsPreparedWhenNamespaceAndPermissionsExist(t *testing.T) {
	h := newHarness(t)
	admin, err := plane.AdminConfig()
	if err != nil {
		t.Fatal(err)
	}
	user := rest.CopyConfig(admin)
	user.Impersonate = rest.ImpersonationConfig{UserName: "storage-" + h.namespace}
	prepare := func(namespace string) error {
		t.Helper()
		backend, err := configmap.NewBackend(user, namespace)
		if err != nil {
			t.Fatal(err)
		}
		return backend.Prepare(t.Context())
	}
	grant := func(name, namespace string, rules ...rbacv1.PolicyRule) {
		t.Helper()
		meta := metav1.ObjectMeta{Name: h.namespace + "-" + name}
		subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user.Impersonate.UserName}}
		if _, err := h.client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		role := rbacv1.RoleRef{Kind: "ClusterRole", Name: meta.Name}
		if namespace == "" {
			_, err = h.client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: subjects}, metav1.CreateOptions{})
		} else {
			_, err = h.client.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: role, Subjects: subjects}, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// The authorizer of the kube-apiserver observes grants a moment later.
	expect := func(namespace, want string) {
		t.Helper()
		err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			err := prepare(namespace)
			return want == "" && err == nil || want != "" && err != nil && strings.Contains(err.Error(), want), nil
		})
		if err != nil {
			t.Fatalf("namespace %s: got %v, want %q", namespace, prepare(namespace), want)
		}
	}
	expect(h.namespace, "forbidden")
	grant("namespaces", "", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}})
	expect(h.namespace+"-other", "does not exist")
	expect(h.namespace, "not allowed to get, list, watch, create, update, delete configmaps")
	grant("read", h.namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}})
	expect(h.namespace, "not allowed to create, update, delete configmaps")
	grant("write", h.namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "update", "delete"}})
	expect(h.namespace, "")
	if err := h.client.CoreV1().Namespaces().Delete(t.Context(), h.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := prepare(h.namespace); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", h.namespace)) {
		t.Errorf("deleted namespace: got %v", err)
	}
}

// The namespace controller can delete the storage namespace while storage cannot be
// used: it holds no objects of the API.
func TestStorageNamespaceHoldsNoObjectsOfTheAPI(t *testing.T) {
	h := newHarness(t)
	inside := &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: h.namespace, Name: "web"}}
	err := h.Create(t.Context(), "/pods/"+h.namespace+"/web", inside, nil, 0)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "reserved for the storage") {
		t.Errorf("create: got %v, want 403", err)
	}
	err = h.GuaranteedUpdate(t.Context(), "/pods/"+h.namespace+"/web", &example.Pod{}, true, nil,
		storage.SimpleUpdate(func(runtime.Object) (runtime.Object, error) { return inside, nil }), nil)
	if !apierrors.IsForbidden(err) {
		t.Errorf("create by update: got %v, want 403", err)
	}
	h.create(t, "elsewhere")
	h.backend.Gate().Close(errors.New("closed by the test"))
	list := &example.PodList{}
	if err := h.GetList(t.Context(), "/pods/"+h.namespace, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list); err != nil || list.Items == nil || len(list.Items) != 0 || list.ResourceVersion == "" {
		t.Errorf("list: got %+v, %v", list, err)
	}
	if _, err := h.list(t, storage.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("list of all namespaces: got %v, want 503", err)
	}
}
