// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"context"
	"fmt"
	"os"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcd"
)

// store is the etcd of all tests. Each test uses a prefix of its own.
var store *clientv3.Client

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "identities")
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
	// The flush daemon of klog is started once per process and never ends.
	if err := goleak.Find(goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

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
