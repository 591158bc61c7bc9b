// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
)

// R502: storage whose objects were moved elsewhere is not used any more, nor is storage that was
// replaced or has lost its marker.
func TestStorageWithAnotherMarkerIsClosed(t *testing.T) {
	opened := marker.Marker{StorageID: "one", ClusterUID: "here"}
	for _, test := range []struct {
		name string
		held *marker.Marker
		want string
	}{
		{"unchanged", &opened, ""},
		{"moved", &marker.Marker{StorageID: "one", ClusterUID: "here", MovedTo: "an etcd"}, "storage is outdated: its objects were moved to an etcd"},
		{"another storage", &marker.Marker{StorageID: "two", ClusterUID: "here"}, "storage one was replaced by storage two"},
		{"no marker", nil, "storage one was lost: its marker is missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := kubernetesfake.NewClientset(storageNamespace("one", false))
			b := &Backend{client: client, namespace: "mcs-storage", prepared: "one"}
			b.guard = NewNamespaceGuard(b.namespace, b.getNamespace)
			if err := b.Marker().Put(t.Context(), nil, opened); err != nil {
				t.Fatal(err)
			}
			setMarkerVersion(t, client)
			if err := b.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			if test.held == nil {
				if err := client.CoreV1().ConfigMaps(b.namespace).Delete(t.Context(), marker.Name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			} else if err := b.Marker().Put(t.Context(), &opened, *test.held); err != nil {
				t.Fatal(err)
			}
			for what, err := range map[string]error{"confirmation": b.Confirm(t.Context()), "gate": b.Gate().Usable()} {
				if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || !apierrors.IsServiceUnavailable(err)) {
					t.Errorf("%s: got %v, want %q", what, err, test.want)
				}
			}
		})
	}
}

// setMarkerVersion gives the marker a resource version, as a kube-apiserver does.
func setMarkerVersion(t *testing.T, client *kubernetesfake.Clientset) {
	t.Helper()
	held, err := client.CoreV1().ConfigMaps("mcs-storage").Get(t.Context(), marker.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	held.ResourceVersion = "60"
	if _, err := client.CoreV1().ConfigMaps("mcs-storage").Update(t.Context(), held, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}
