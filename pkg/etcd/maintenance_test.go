// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	testQuota = 16 * mebibyte
	valueSize = 64 << 10
)

// startSmall starts an etcd with a small quota, which is stopped at the end of the test at the latest.
func startSmall(t *testing.T, dir string) (embedded *Embedded, client *clientv3.Client, stop func()) {
	t.Helper()
	if err := prepare(dir); err != nil {
		t.Fatal(err)
	}
	embedded, err := start(t.Context(), dir, testQuota, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	client, err = clientv3.New(clientv3.Config{Endpoints: []string{EmbeddedEndpoint(dir)}, DialTimeout: 10 * time.Second})
	if err != nil {
		embedded.Close()
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		client.Close()
		embedded.Close()
	})
	t.Cleanup(stop)
	return embedded, client, stop
}

func put(t *testing.T, client *clientv3.Client, key string) error {
	t.Helper()
	_, err := client.Put(t.Context(), key, strings.Repeat("x", valueSize))
	return err
}

// fill writes keys until they are refused and maintenance cannot help, and
// returns how many were written.
func fill(t *testing.T, embedded *Embedded, client *clientv3.Client) (count int) {
	t.Helper()
	for start := time.Now(); time.Since(start) < 2*time.Minute; {
		err := put(t, client, fmt.Sprintf("/key/%d", count))
		switch {
		case err == nil:
			count++
		case !errors.Is(err, rpctypes.ErrNoSpace):
			t.Fatal(err)
		case strings.Contains(embedded.ExplainFull(), "delete ServiceExports"):
			return count
		default:
			time.Sleep(100 * time.Millisecond)
		}
	}
	t.Fatal("the quota was not enforced")
	return 0
}

// awaitWritable waits until a write is accepted.
func awaitWritable(t *testing.T, client *clientv3.Client) time.Duration {
	t.Helper()
	start := time.Now()
	for {
		err := put(t, client, "/again")
		if err == nil {
			return time.Since(start)
		}
		if !errors.Is(err, rpctypes.ErrNoSpace) || time.Since(start) > time.Minute {
			t.Fatalf("after %s: %v", time.Since(start), err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// R171, R172: a full etcd refuses writes, and serves reads, watches and deletions. Once
// enough is deleted it accepts writes again by itself.
func TestFullEtcdServesReadsAndDeletionsAndRecovers(t *testing.T) {
	embedded, client, _ := startSmall(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	count := fill(t, embedded, client)
	watch := client.Watch(ctx, "/key/0")

	// etcd stores the write during which it runs out of space, although it returns an error.
	if response, err := client.Get(ctx, "/key/", clientv3.WithPrefix(), clientv3.WithCountOnly()); err != nil || response.Count < int64(count) {
		t.Errorf("read %d of %d keys, %v", response.Count, count, err)
	}
	if _, err := client.Delete(ctx, "/key/0"); err != nil {
		t.Errorf("delete: %v", err)
	}
	if response := <-watch; response.Err() != nil || len(response.Events) != 1 || response.Events[0].Type != clientv3.EventTypeDelete {
		t.Errorf("watch: %+v", response)
	}
	// Deleting a single key does not help: etcd must not flap.
	if err := put(t, client, "/key/0"); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("write to a full etcd: %v", err)
	}
	for key := range count / 2 {
		if _, err := client.Delete(ctx, fmt.Sprintf("/key/%d", key)); err != nil {
			t.Fatalf("delete: %v", err)
		}
	}
	t.Logf("%d keys of %d KiB filled %s; after deleting half, writes were accepted again after %s", count, valueSize>>10, mebibytes(testQuota), awaitWritable(t, client))
	if size := embedded.maintenance.server.Backend().Size(); size > testQuota*3/4 {
		t.Errorf("database has %s after defragmentation", mebibytes(size))
	}
}

// R172: space that was still being read when its keys were compacted counts as free
// afterwards, although nothing is written.
func TestFullEtcdRecoversAfterReads(t *testing.T) {
	embedded, client, _ := startSmall(t, t.TempDir())
	server := embedded.maintenance.server
	fill(t, embedded, client)
	reading := server.Backend().ConcurrentReadTx()
	reading.RLock()
	response, err := client.Delete(t.Context(), "/key/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); server.KV().FirstRev() < response.Header.Revision; time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("not compacted")
		}
	}
	time.Sleep(2 * maintenanceInterval) // the compaction is physical
	reading.RUnlock()
	if took := awaitWritable(t, client); took > 8*maintenanceInterval {
		t.Errorf("writes were accepted again after %s", took)
	}
}

// R170: history does not fill the storage, or not for long.
func TestHistoryIsCompacted(t *testing.T) {
	embedded, client, _ := startSmall(t, t.TempDir())
	for written := 0; written < 2*testQuota; written += valueSize {
		if err := put(t, client, "/key"); errors.Is(err, rpctypes.ErrNoSpace) {
			t.Logf("refused after %s, for %s", mebibytes(int64(written)), awaitWritable(t, client))
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if size := embedded.maintenance.server.Backend().Size(); size > testQuota {
		t.Errorf("database has %s, more than its quota of %s", mebibytes(size), mebibytes(testQuota))
	}
}

// An etcd that was full when it was stopped is full when it is started, and recovers all the same.
func TestFullEtcdRecoversAfterRestart(t *testing.T) {
	dir := t.TempDir()
	embedded, client, stop := startSmall(t, dir)
	count := fill(t, embedded, client)
	stop()
	_, client, _ = startSmall(t, dir)
	if err := put(t, client, "/more"); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("write after the restart: %v", err)
	}
	if response, err := client.Delete(t.Context(), "/key/", clientv3.WithPrefix()); err != nil || response.Deleted < int64(count) {
		t.Fatalf("deleted %d of %d keys, %v", response.Deleted, count, err)
	}
	awaitWritable(t, client)
}
