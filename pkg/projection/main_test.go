// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcdtest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importidentity"
)

// store is the etcd of all tests. Each test uses a prefix of its own.
var store *clientv3.Client

func TestMain(m *testing.M) { etcdtest.Main(m, &store) }

// newIdentities returns identities that all clusters of a test share.
func newIdentities(t *testing.T) *importidentity.Identities {
	t.Helper()
	t.Cleanup(func() { // a repeated run starts without records
		if _, err := store.Delete(context.Background(), "/"+t.Name()+"/", clientv3.WithPrefix()); err != nil {
			t.Error(err)
		}
	})
	return importidentity.New(store, "/"+t.Name(), clock.RealClock{})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
