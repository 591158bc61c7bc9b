// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// clusterAdmin binds a user to the ClusterRole cluster-admin.
func clusterAdmin(user string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
}

// R460: users may complete the profiles of members, but neither make them up, nor change what
// they say.
func TestProfilesOfMembersAreProtected(t *testing.T) {
	join(t, "east", "west")
	awaitProfiles(t, east(), profileLister(t, east()), clusterSet, "east", "west")
	expect.Must(east().Kubernetes.RbacV1().ClusterRoleBindings().Create(t.Context(), clusterAdmin("carol"), metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		expect.NoError(t, east().Kubernetes.RbacV1().ClusterRoleBindings().Delete(context.Background(), "carol", metav1.DeleteOptions{}))
	})
	config := expect.Must(east().Plane.AdminConfig())(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: "carol"}
	client := expect.Must(dynamic.NewForConfig(config))(t).Resource(clusterProfiles)
	patch := func(text string, subresources ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := client.Namespace(installation.Namespace).Patch(ctx, "west", types.MergePatchType, []byte(text), metav1.PatchOptions{}, subresources...)
			return err
		}
	}
	forged := func(namespace string) func(context.Context) error {
		return func(ctx context.Context) error {
			object := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile", "metadata": map[string]any{"name": "south"},
				"spec": map[string]any{"clusterManager": map[string]any{"name": multicluster.ManagedBy}},
			}}
			_, err := client.Namespace(namespace).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
	}
	for what, write := range map[string]func(context.Context) error{
		"create":                       forged(installation.Namespace),
		"create in another namespace":  forged("default"),
		"change the spec":              patch(`{"spec":{"displayName":"other"}}`),
		"change whether it is relayed": patch(`{"metadata":{"annotations":{"clusterset.mcs-apiserver.io/relayed-by":"north"}}}`),
		"add a finalizer":              patch(`{"metadata":{"finalizers":["example.com/kept"]}}`),
		"add an owner":                 patch(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"none","uid":"none"}]}}`),
		"change the health":            patch(`{"status":{"conditions":[]}}`, "status"),
		"change the properties":        patch(`{"status":{"properties":[{"name":"a","value":"b"}]}}`, "status"),
		"change the version":           patch(`{"status":{"version":{"kubernetes":"v9"}}}`, "status"),
		"delete": func(ctx context.Context) error {
			return client.Namespace(installation.Namespace).Delete(ctx, "west", metav1.DeleteOptions{})
		},
	} {
		t.Run(what, func(t *testing.T) {
			if err := write(t.Context()); !apierrors.IsForbidden(err) {
				t.Errorf("got error %v, want forbidden", err)
			}
		})
	}
	expect.NoError(t, errors.Join(
		patch(`{"metadata":{"labels":{"env":"prod"}}}`)(t.Context()),
		patch(`{"status":{"accessProviders":[{"name":"example","cluster":{"server":"https://west.example.com"}}]}}`, "status")(t.Context())))
}
