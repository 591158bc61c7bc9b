// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcd"
)

// Storage locations and versions never change, whichever group objects were
// written through: servers of other releases must find them.
func TestStorageLocationsAreFrozen(t *testing.T) {
	ns, ctx := namespace(t), t.Context()
	if _, err := serviceExports(t, kepGroup, ns).Create(ctx, unstructuredExport(kepGroup, "web", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "create", "-f", "testdata/claim.yaml")
	defer kubectl(t, "delete", "-f", "testdata/claim.yaml")
	store, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.EmbeddedEndpoint(suite.DataDir())}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for key, want := range map[string]metav1.TypeMeta{
		"/registry/mcs-apiserver/multicluster.x-k8s.io/serviceexports/" + ns + "/web":  {APIVersion: "multicluster.x-k8s.io/v1beta1", Kind: "ServiceExport"},
		"/registry/mcs-apiserver/multicluster.k8s.io/clusterclaims/stored.example.com": {APIVersion: "multicluster.k8s.io/v1", Kind: "ClusterClaim"},
	} {
		response, err := store.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		if len(response.Kvs) != 1 {
			t.Errorf("nothing is stored at %s", key)
			continue
		}
		var got metav1.TypeMeta
		if err := json.Unmarshal(response.Kvs[0].Value, &got); err != nil || got != want {
			t.Errorf("stored at %s: %+v (%v), want %+v", key, got, err, want)
		}
	}
	// R138: virtual objects are not in etcd.
	imports, err := store.Get(ctx, "/registry/mcs-apiserver/multicluster.x-k8s.io/serviceimports/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || imports.Count != 0 {
		t.Errorf("%d ServiceImports are stored (%v)", imports.Count, err)
	}
}
