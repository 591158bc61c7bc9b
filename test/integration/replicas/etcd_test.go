// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// etcdClient returns a client of the etcd that the replicas share.
func etcdClient(t *testing.T) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{east().Plane.EtcdURL()}, DialTimeout: 10 * time.Second})
	expect.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// records returns the number of records about the lives of imports in a namespace,
// or in all of them.
func records(t *testing.T, namespace types.UID) int64 {
	t.Helper()
	found, err := etcdClient(t).Get(t.Context(), "/registry/mcs-apiserver/storage.mcs-apiserver.io/lives/"+string(namespace), clientv3.WithPrefix(), clientv3.WithCountOnly())
	expect.NoError(t, err)
	return found.Count
}
