// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcdtest runs the tests of a package against an embedded etcd.
package etcdtest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcd"
)

// Main runs all tests of a package with a client of an etcd that they share, and
// exits. It fails if a goroutine outlives the tests. Call it from TestMain.
func Main(m *testing.M, client **clientv3.Client) {
	code, err := run(m, client)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, client **clientv3.Client) (code int, err error) {
	dir, err := os.MkdirTemp("", "etcdtest")
	if err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	embedded, err := etcd.StartEmbedded(context.Background(), dir)
	if err != nil {
		return 1, err
	}
	if *client, err = clientv3.New(clientv3.Config{Endpoints: []string{etcd.EmbeddedEndpoint(dir)}}); err != nil {
		embedded.Close()
		return 1, err
	}
	code = m.Run()
	(*client).Close()
	embedded.Close()
	if code != 0 {
		return code, nil
	}
	// The flush daemon of klog is started once per process and never ends.
	return 0, goleak.Find(goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}
