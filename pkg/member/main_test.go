// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"fmt"
	"os"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcd"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/memory"
)

// store is an etcd for all tests. Each keeps to a prefix of its own.
var store *clientv3.Client

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "member")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	embedded, err := etcd.StartEmbedded(context.Background(), dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	store, err = clientv3.New(clientv3.Config{Endpoints: []string{etcd.EmbeddedEndpoint(dir)}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	store.Close()
	embedded.Close()
	if code != 0 {
		return code
	}
	// Started once per process, without an end.
	if err := goleak.Find(goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func newMemory(t *testing.T) *memory.Memory {
	t.Helper()
	t.Cleanup(func() { // the next run begins with nothing
		if _, err := store.Delete(context.Background(), "/"+t.Name()+"/", clientv3.WithPrefix()); err != nil {
			t.Error(err)
		}
	})
	return memory.New(store, "/"+t.Name())
}

// revision is etcd's: it grows with every write.
func revision(t *testing.T) int64 {
	t.Helper()
	response, err := store.Get(t.Context(), "nothing")
	if err != nil {
		t.Fatal(err)
	}
	return response.Header.Revision
}
