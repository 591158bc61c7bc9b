// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// everyKey are options that count the keys with a prefix.
var everyKey = []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithCountOnly()}

// etcdClient returns a client of the etcd that the replicas share.
func etcdClient(t *testing.T) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{east().Plane.EtcdURL()}, DialTimeout: 10 * time.Second})
	expect.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}
