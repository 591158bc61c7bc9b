// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fullstorage tests a server whose embedded etcd is on a small volume.
package fullstorage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcd"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/netns"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

// volumeSize makes the quota of the database the smallest possible, 32 MiB.
const volumeSize = 384 << 20

var (
	clusters *fleet.Fleet
	// volume is the directory of the volume.
	volume string
)

func TestMain(m *testing.M) {
	if err := netns.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestEmbeddedEtcdOnASmallVolume(t *testing.T) {
	root, err := repository.Root()
	expect.NoError(t, err)
	volume = t.TempDir()
	expect.NoError(t, syscall.Mount("mcs-test", volume, "tmpfs", 0, fmt.Sprintf("mode=0755,size=%d", volumeSize)))
	t.Cleanup(func() { expect.NoError(t, syscall.Unmount(volume, 0)) })
	dir, err := os.MkdirTemp("", "mcs-fullstorage-")
	expect.NoError(t, err)
	clusters, err = fleet.Start(t.Context(), fleet.Config{
		Root: root, Dir: dir, Names: []string{"east"}, ClusterSet: "everywhere",
		Configure: func(_ string, _ *controlplane.Config, installed *installation.Config) {
			installed.StorageFlags = []string{"--storage=embedded", "--data-dir=" + volume}
		},
	})
	expect.NoError(t, err)
	t.Cleanup(func() {
		expect.NoError(t, clusters.Stop())
		if t.Failed() {
			t.Log("component logs are in", dir)
		} else {
			expect.NoError(t, os.RemoveAll(dir))
		}
	})
	t.Run("full database", testFullDatabase)
	t.Run("full volume", testFullVolume)
}

func east() *fleet.Cluster { return clusters.Clusters[0] }

func create(ctx context.Context, namespace, name string) error {
	_, err := east().Clientset.MulticlusterXV1beta1().ServiceExports(namespace).Create(ctx, &multiclusterxv1beta1.ServiceExport{
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}, metav1.CreateOptions{})
	return err
}

// refusal returns the status with which a write was refused, or nil.
func refusal(err error) *metav1.Status {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusInsufficientStorage {
		return nil
	}
	refused := status.Status()
	return &refused
}

// ballast fills the embedded etcd.
type ballast struct {
	client *clientv3.Client
	pieces int
}

const ballastPrefix = "/ballast/"

func newBallast(t *testing.T) *ballast {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.EmbeddedEndpoint(volume)}, DialTimeout: expect.Patience})
	expect.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return &ballast{client: client}
}

// fill writes until etcd refuses writes.
func (b *ballast) fill(ctx context.Context) error {
	for {
		_, err := b.client.Put(ctx, ballastPrefix+strconv.Itoa(b.pieces), strings.Repeat("x", 1<<20))
		if errors.Is(err, rpctypes.ErrNoSpace) {
			return nil
		}
		if err != nil {
			return err
		}
		b.pieces++
	}
}

func (b *ballast) empty(t *testing.T) {
	t.Helper()
	_, err := b.client.Delete(t.Context(), ballastPrefix, clientv3.WithPrefix())
	expect.NoError(t, err)
}

// awaitRefusal returns the message with which a write is refused in the end: it is
// another one while the database is compacted, and space that was found then is
// filled too.
func awaitRefusal(t *testing.T, namespace, remedy string, fill func(context.Context) error) (message string) {
	t.Helper()
	expect.Eventually(t, "refusal", func(ctx context.Context) error {
		if err := fill(ctx); err != nil {
			return err
		}
		err := create(ctx, namespace, fmt.Sprintf("refused-%d", time.Now().UnixNano()))
		if err == nil {
			return errors.New("a write was accepted")
		}
		refused := refusal(err)
		if refused == nil || !strings.Contains(refused.Message, remedy) {
			return fmt.Errorf("got %w, want 507: %s", err, remedy)
		}
		message = refused.Message
		return nil
	})
	t.Log(message)
	return message
}

// R170 to R172
func testFullDatabase(t *testing.T) {
	ns := clusters.CreateNamespace(t, "full")
	exports := east().Clientset.MulticlusterXV1beta1().ServiceExports(ns)
	expect.NoError(t, create(t.Context(), ns, "first"))
	ballast := newBallast(t)
	expect.Contains(t, awaitRefusal(t, ns, "delete ServiceExports", ballast.fill), "storage is full", "quota on this volume is 32 MiB", volume)

	expect.Eventually(t, "refusal of kubectl", func(ctx context.Context) error {
		if err := ballast.fill(ctx); err != nil { // another compaction may have found space
			return err
		}
		output, err := east().Kubectl(ctx, "annotate", "serviceexport", "-n", ns, "first", "more=text", "--overwrite")
		if err == nil {
			return errors.New("kubectl could write")
		}
		if !strings.Contains(output, "InsufficientStorage") || !strings.Contains(output, "delete ServiceExports") {
			return fmt.Errorf("got %w: %s", err, output)
		}
		return nil
	})

	list, err := exports.List(t.Context(), metav1.ListOptions{Limit: 1})
	expect.NoError(t, err)
	watcher, err := exports.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion, FieldSelector: "metadata.name=first"})
	expect.NoError(t, err)
	defer watcher.Stop()
	expect.NoError(t, exports.Delete(t.Context(), "first", metav1.DeleteOptions{}))
	for event := range watcher.ResultChan() {
		if event.Type == watch.Deleted {
			break
		}
		if event.Type == watch.Error {
			t.Fatalf("watch: %+v", event.Object)
		}
	}
	ballast.empty(t)
	deleted := time.Now()
	expect.Eventually(t, "writes after deletions", func(ctx context.Context) error { return create(ctx, ns, "again") })
	t.Logf("writes were accepted again %s after all was deleted", time.Since(deleted).Round(time.Millisecond))
}

// R171, R172: something else fills the volume.
func testFullVolume(t *testing.T) {
	ns := clusters.CreateNamespace(t, "volume")
	expect.NoError(t, create(t.Context(), ns, "before"))
	filler := filepath.Join(volume, "filler")
	expect.NoError(t, occupy(filler))
	t.Cleanup(func() { _ = os.Remove(filler) })

	expect.Contains(t, awaitRefusal(t, ns, "free space or enlarge the volume", nothing), volume, "is full")
	if _, err := east().Clientset.MulticlusterXV1beta1().ServiceExports(ns).Get(t.Context(), "before", metav1.GetOptions{}); err != nil {
		t.Errorf("get: %v", err)
	}
	expect.NoError(t, east().Clientset.MulticlusterXV1beta1().ServiceExports(ns).Delete(t.Context(), "before", metav1.DeleteOptions{}))

	expect.NoError(t, os.Remove(filler))
	freed := time.Now()
	expect.Eventually(t, "writes after space was freed", func(ctx context.Context) error { return create(ctx, ns, "after") })
	t.Logf("writes were accepted again %s after space was freed", time.Since(freed).Round(time.Millisecond))
}

func nothing(context.Context) error { return nil }

// occupy writes a file that leaves 32 MiB of the volume.
func occupy(file string) error {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(file), &stat); err != nil {
		return err
	}
	created, err := os.Create(file)
	if err != nil {
		return err
	}
	defer created.Close()
	return syscall.Fallocate(int(created.Fd()), 0, 0, int64(stat.Bavail)*stat.Bsize-32<<20)
}
