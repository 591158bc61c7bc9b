// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package attach_test

import (
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/commandtest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/expect"
)

// R182: attach finds the mark in any namespace, removes it, and reports if nobody
// registers the API.
func TestAttachRemovesTheMark(t *testing.T) {
	west := commandtest.NewAPIServer(t, "west", func(objects map[string]any) {
		objects["/apis/apiregistration.k8s.io/v1/apiservices"] = commandtest.List("apiregistration.k8s.io/v1", "APIService")
		objects["/api/v1/configmaps"] = commandtest.List("v1", "ConfigMap",
			map[string]any{"metadata": map[string]string{"name": "mcs-apiserver-detached", "namespace": "elsewhere"}})
	})
	out, _, err := commandtest.Run(t.Context(), "attach", "west", "--timeout", "1s", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"west": west.URL}))
	expect.Error(t, err, `context "west": API is not available after 1s: APIService v1.multicluster.k8s.io does not exist`, "describe deployment -n elsewhere mcs-apiserver")
	expect.Text(t, "✓ west: delete ConfigMap elsewhere/mcs-apiserver-detached\n✗ west: wait until the API is available\n", out)
	if writes := west.Written(); !slices.Equal(writes, []string{"DELETE configmaps"}) {
		t.Errorf("got writes %v", writes)
	}
}

func TestAttachOfAnAttachedClusterChangesNothing(t *testing.T) {
	var items []any
	for _, name := range []string{"v1.multicluster.k8s.io", "v1alpha1.clusterset.mcs-apiserver.io", "v1alpha1.multicluster.x-k8s.io", "v1beta1.multicluster.x-k8s.io"} {
		items = append(items, map[string]any{
			"metadata": map[string]string{"name": name}, "spec": map[string]any{"service": map[string]string{"namespace": "mcs-system", "name": "mcs-apiserver"}},
			"status": map[string]any{"conditions": []map[string]string{{"type": "Available", "status": "True"}}},
		})
	}
	west := commandtest.NewAPIServer(t, "west", func(objects map[string]any) {
		objects["/apis/apiregistration.k8s.io/v1/apiservices"] = commandtest.List("apiregistration.k8s.io/v1", "APIService", items...)
		objects["/api/v1/namespaces/mcs-system/configmaps"] = commandtest.List("v1", "ConfigMap")
	})
	out, _, err := commandtest.Run(t.Context(), "attach", "west", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"west": west.URL}))
	if err != nil {
		t.Fatal(err)
	}
	expect.Text(t, "✓ west: wait until the API is available\nAPI of mcs-apiserver is available in the cluster of context \"west\".\n", out)
	if writes := west.Written(); len(writes) > 0 {
		t.Errorf("unexpected writes: %v", writes)
	}
}

func TestAttachWithoutAnInstallation(t *testing.T) {
	west := commandtest.NewAPIServer(t, "west", func(objects map[string]any) {
		objects["/apis/apiregistration.k8s.io/v1/apiservices"] = commandtest.List("apiregistration.k8s.io/v1", "APIService")
		objects["/api/v1/configmaps"] = commandtest.List("v1", "ConfigMap")
		objects["/api/v1/namespaces/mcs-system"] = metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		}
	})
	_, _, err := commandtest.Run(t.Context(), "attach", "west", "--timeout", "1s", "--kubeconfig", commandtest.Kubeconfig(t, map[string]string{"west": west.URL}))
	expect.Error(t, err, `context "west": mcs-apiserver is not installed: namespace "mcs-system"`)
}
