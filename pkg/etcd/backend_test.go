// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
)

func TestStorageIsEmptyUntilAKeyExistsBelowThePrefix(t *testing.T) {
	dir := t.TempDir()
	embedded, err := StartEmbedded(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer embedded.Close()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{EmbeddedEndpoint(dir)}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	backend := NewBackend(client, "/registry/mine")
	for _, step := range []struct {
		key  string
		want bool
	}{{"/registry/minerals/key", true}, {"/registry/mine/key", false}} {
		if _, err := client.Put(t.Context(), step.key, "value"); err != nil {
			t.Fatal(err)
		}
		if empty, err := backend.Empty(t.Context()); err != nil || empty != step.want {
			t.Errorf("with %s: empty: %v, %v", step.key, empty, err)
		}
	}
	if err := backend.Marker().Put(t.Context(), nil, marker.Marker{StorageID: "a", ClusterUID: "b"}); err != nil {
		t.Fatal(err)
	}
	// Another release must find the marker.
	response, err := client.Get(t.Context(), "/registry/mine/storage.mcs-apiserver.io/marker")
	if err != nil || response.Count != 1 {
		t.Errorf("got %v, %v", response, err)
	}
}
