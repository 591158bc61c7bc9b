// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package storagenamespace

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

var account = types.NamespacedName{Namespace: "mcs-system", Name: "mcs-apiserver"}

func namespaced(change func(*corev1.Namespace)) *corev1.Namespace {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mcs-storage"}}
	change(namespace)
	return namespace
}

func bound(change func(*rbacv1.RoleBinding)) *rbacv1.RoleBinding {
	binding := desiredBinding(nil, account)
	binding.Namespace = "mcs-storage"
	change(binding)
	return binding
}

// R150: the namespace and the permissions in it are created and restored, and neither is
// ever deleted.
func TestNamespaceAndBindingAreCreatedAndRestored(t *testing.T) {
	alive := namespaced(func(*corev1.Namespace) {})
	dying := namespaced(func(n *corev1.Namespace) { n.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0))) })
	asWanted := bound(func(*rbacv1.RoleBinding) {})
	withoutSubjects := bound(func(b *rbacv1.RoleBinding) { b.Subjects = nil })
	ofAnotherRole := bound(func(b *rbacv1.RoleBinding) { b.RoleRef.Name = "cluster-admin" })
	for what, test := range map[string]struct {
		namespace *corev1.Namespace
		binding   *rbacv1.RoleBinding
		written   []string
		err       string
	}{
		"first start":             {nil, nil, []string{"create namespaces", "create rolebindings"}, ""},
		"namespace only":          {alive, nil, []string{"create rolebindings"}, ""},
		"complete":                {alive, asWanted, nil, ""},
		"being deleted":           {dying, asWanted, nil, ""},
		"emptied, being deleted":  {dying, nil, nil, ""},
		"binding without account": {alive, withoutSubjects, []string{"update rolebindings"}, ""},
		"binding of another role": {alive, ofAnotherRole, nil, "RoleBinding mcs-storage/mcs-apiserver:storage refers to ClusterRole cluster-admin"},
	} {
		var objects []runtime.Object
		if test.namespace != nil {
			objects = append(objects, test.namespace)
		}
		if test.binding != nil {
			objects = append(objects, test.binding)
		}
		client := kubernetesfake.NewClientset(objects...)
		c := New(client, "mcs-storage", account)
		for _, object := range objects {
			informer := c.namespaces
			if object == runtime.Object(test.binding) {
				informer = c.bindings
			}
			if err := informer.GetIndexer().Add(object); err != nil {
				t.Fatal(err)
			}
		}
		err := c.sync(t.Context(), c.key)
		c.queue.ShutDown()
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: got %v, want %q", what, err, test.err)
		}
		var written []string
		for _, action := range client.Actions() {
			written = append(written, action.GetVerb()+" "+action.GetResource().Resource)
		}
		if !slices.Equal(written, test.written) {
			t.Errorf("%s: wrote %v, want %v", what, written, test.written)
		}
		if test.err != "" || test.namespace == dying {
			continue
		}
		binding, err := client.RbacV1().RoleBindings("mcs-storage").Get(t.Context(), roleName, metav1.GetOptions{})
		if err != nil || desiredBinding(binding, account) != binding {
			t.Errorf("%s: RoleBinding is %+v, %v", what, binding, err)
		}
		namespace, err := client.CoreV1().Namespaces().Get(t.Context(), "mcs-storage", metav1.GetOptions{})
		if err != nil || test.namespace == nil && namespace.Labels["app.kubernetes.io/name"] != "mcs-apiserver" {
			t.Errorf("%s: namespace is %+v, %v", what, namespace, err)
		}
	}
}
