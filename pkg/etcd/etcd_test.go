// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

func TestMain(m *testing.M) {
	// The watch cache ends it a few seconds after it is destroyed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/apiserver/pkg/storage/cacher.(*watchCache).waitUntilFreshAndBlock.func2"))
}

func TestReleasesWithReliableWatchProgress(t *testing.T) {
	for release, want := range map[string]bool{
		"3.3.27": false, "3.4.0": false, "3.4.30": false, "3.4.31": true, "3.4.40": true,
		"3.5.0-rc.1": false, "3.5.0": false, "3.5.12": false, "3.5.13": true, "3.6.0-rc.0": true, "3.6.8": true, "3.10.0": true, "4.0.0": true,
		"": false, "three": false,
	} {
		if err := supportsWatchProgress(release); (err == nil) != want {
			t.Errorf("etcd %q: got %v, want supported=%v", release, err, want)
		}
	}
}

func TestEmbeddedKeepsDataInAPrivateDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for run, want := range []int64{0, 1} {
		embedded, err := StartEmbedded(t.Context(), dir)
		if err != nil {
			t.Fatalf("run %d: %v", run, err)
		}
		if got := countAndPut(t, dir); got != want {
			t.Errorf("run %d: found %d keys, want %d", run, got, want)
		}
		if err := checkVersion(t, t.Context(), EmbeddedEndpoint(dir)); err != nil {
			t.Errorf("run %d: the version of the embedded etcd is rejected: %v", run, err)
		}
		expectNoOpenPorts(t)
		embedded.Close()
	}
	info, err := os.Stat(filepath.Join(dir, "etcd"))
	if err != nil || info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("the mode of the data directory is %v (%v), want no access for other users", info.Mode(), err)
	}
}

// A second process, such as that of a Pod with the same volume, does not get in the way of
// the first one.
func TestDataDirectoryIsUsedByOneProcess(t *testing.T) {
	defer func(timeout time.Duration) { lockTimeout = timeout }(lockTimeout)
	lockTimeout = 300 * time.Millisecond
	dir := filepath.Join(t.TempDir(), "data")
	first, err := StartEmbedded(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if second, err := StartEmbedded(t.Context(), dir); err == nil {
		second.Close()
		t.Error("two processes use the same directory")
	} else if !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "another process uses it; run only one replica") {
		t.Errorf("got %v", err)
	}
	if got := countAndPut(t, dir); got != 0 { // with a new connection
		t.Errorf("found %d keys, want none", got)
	}
	first.Close()
	again, err := StartEmbedded(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := countAndPut(t, dir); got != 1 {
		t.Errorf("found %d keys, want one", got)
	}
}

func countAndPut(t *testing.T, dir string) int64 {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{EmbeddedEndpoint(dir)}, DialTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	response, err := client.Get(t.Context(), "/key")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), "/key", "value"); err != nil {
		t.Fatal(err)
	}
	return response.Count
}

// expectNoOpenPorts fails if this process listens on a TCP port.
func expectNoOpenPorts(t *testing.T) {
	t.Helper()
	own := map[string]bool{}
	descriptors, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, descriptor := range descriptors {
		if link, err := os.Readlink("/proc/self/fd/" + descriptor.Name()); err == nil {
			own[strings.TrimSuffix(strings.TrimPrefix(link, "socket:["), "]")] = true
		}
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		data, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(data), "\n") {
			const state, inode, listening = 3, 9, "0A"
			if fields := strings.Fields(line); len(fields) > inode && fields[state] == listening && own[fields[inode]] {
				t.Errorf("the embedded etcd listens on a port: %s", line)
			}
		}
	}
}

func TestDataDirThatCannotHoldASocketIsRejected(t *testing.T) {
	for dir, want := range map[string]string{
		"":                                "requires a data directory",
		"relative":                        "absolute",
		"/" + strings.Repeat("long/", 30): "shorter",
	} {
		if _, err := StartEmbedded(t.Context(), dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("data directory %q: got %v, want an error with %q", dir, err, want)
		}
	}
}

// oldEtcd is a server that reports an old version.
type oldEtcd struct {
	etcdserverpb.UnimplementedMaintenanceServer
}

func (*oldEtcd) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return &etcdserverpb.StatusResponse{Version: "3.5.12"}, nil
}

func TestOldEtcdIsRejected(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	etcdserverpb.RegisterMaintenanceServer(server, &oldEtcd{})
	ended := make(chan error)
	go func() { ended <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	address := "http://" + listener.Addr().String()
	err = checkVersion(t, t.Context(), address)
	if err == nil || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "3.5.12") {
		t.Errorf("got %v, want an error that names server and release", err)
	}
}

func TestUnreachableEtcdIsReported(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + listener.Addr().String()
	listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err = checkVersion(t, ctx, address)
	if err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("got %v, want an error that names %s", err, address)
	}
}

// One of several servers may be down when mcs-apiserver starts.
func TestServerThatIsDownIsNotChecked(t *testing.T) {
	dir := t.TempDir()
	embedded, err := StartEmbedded(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer embedded.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // the time to give up
	defer cancel()
	if err := checkVersion(t, ctx, "http://127.0.0.1:1", EmbeddedEndpoint(dir)); err != nil {
		t.Error(err)
	}
}

func checkVersion(t *testing.T, ctx context.Context, addresses ...string) error {
	t.Helper()
	client, err := Connect(ctx, storagebackend.TransportConfig{ServerList: addresses})
	if err != nil {
		return err
	}
	defer client.Close()
	return CheckVersion(ctx, client)
}
