// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"context"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcdtest"
)

// store is the etcd of all tests. Each test uses a prefix of its own.
var store *clientv3.Client

func TestMain(m *testing.M) { etcdtest.Main(m, &store) }

// newIdentities returns the Identities of a replica. All replicas of a test
// share their records.
func newIdentities(t *testing.T, clock clock.PassiveClock) *Identities {
	t.Helper()
	t.Cleanup(func() { // a repeated run starts without records
		if _, err := store.Delete(context.Background(), "/"+t.Name()+"/", clientv3.WithPrefix()); err != nil {
			t.Error(err)
		}
	})
	return New(store, "/"+t.Name(), clock)
}

// revision returns the revision of etcd, which grows with every write.
func revision(t *testing.T) int64 {
	t.Helper()
	response, err := store.Get(t.Context(), "nothing")
	if err != nil {
		t.Fatal(err)
	}
	return response.Header.Revision
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
