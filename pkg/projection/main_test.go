// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcdtest"
)

// store is the etcd of all tests. Each test uses a prefix of its own.
var store *clientv3.Client

func TestMain(m *testing.M) { etcdtest.Main(m, &store) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
