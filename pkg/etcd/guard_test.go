// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
)

// cachedOptions are options of storage with a watch cache.
type cachedOptions struct{ server string }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o cachedOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	config := storagebackend.NewDefaultConfig("/registry", serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion))
	config.Transport.ServerList = []string{o.server}
	return generic.RESTOptions{StorageConfig: config.ForResource(resource), Decorator: genericregistry.StorageWithCacher()}, nil
}

// guarded is storage of Pods in an etcd that a test can empty.
type guarded struct {
	storage.Interface
	backend *Backend
	client  *clientv3.Client
	dir     string
	etcd    *Embedded
}

// startGuarded starts an etcd with the Pod web and opens it.
func startGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{dir: t.TempDir()}
	g.start(t)
	t.Cleanup(func() { g.etcd.Close() })
	var err error
	if g.client, err = clientv3.New(clientv3.Config{Endpoints: []string{EmbeddedEndpoint(g.dir)}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.client.Close() })
	g.backend = NewBackend(g.client, "/registry")
	options, err := g.backend.Guard(cachedOptions{EmbeddedEndpoint(g.dir)}).GetRESTOptions(schema.GroupResource{Resource: "pods"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	stored, destroy, err := options.Decorator(options.StorageConfig, "/pods", func(object runtime.Object) (string, error) {
		pod := object.(*example.Pod)
		return "/pods/" + pod.Namespace + "/" + pod.Name, nil
	}, func() runtime.Object { return &example.Pod{} }, func() runtime.Object { return &example.PodList{} },
		func(runtime.Object) (labels.Set, fields.Set, error) { return nil, nil, nil }, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	g.Interface = stored
	g.putMarker(t, "mine")
	if err := g.backend.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := create(t.Context(), g, "web", 1); err != nil {
		t.Fatal(err)
	}
	// A watch cache that is not ready refuses watches.
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, storageTimeout, true, func(context.Context) (bool, error) {
		return g.ReadinessCheck() == nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *guarded) start(t *testing.T) {
	t.Helper()
	var err error
	if g.etcd, err = StartEmbedded(t.Context(), g.dir); err != nil {
		t.Fatal(err)
	}
}

func (g *guarded) putMarker(t *testing.T, id string) {
	t.Helper()
	if err := g.backend.Marker().Put(t.Context(), nil, marker.Marker{StorageID: id, ClusterUID: "here"}); err != nil {
		t.Fatal(err)
	}
}

// empty deletes everything below the prefix at once.
func (g *guarded) empty(t *testing.T) {
	t.Helper()
	if _, err := g.client.Delete(t.Context(), "/registry/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
}

// replace starts another etcd, which is empty.
func (g *guarded) replace(t *testing.T) {
	t.Helper()
	g.etcd.Close()
	if err := os.RemoveAll(filepath.Join(g.dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	g.start(t)
}

// list lists with any version, which is answered by the watch cache.
func (g *guarded) list(ctx context.Context, version string) (int, error) {
	list := &example.PodList{}
	err := g.GetList(ctx, "/pods", storage.ListOptions{ResourceVersion: version, Recursive: true, Predicate: storage.Everything}, list)
	return len(list.Items), err
}

func (g *guarded) watch(t *testing.T) watch.Interface {
	t.Helper()
	watcher, err := g.Watch(t.Context(), "/pods", storage.ListOptions{ResourceVersion: "0", Recursive: true, Predicate: storage.Everything})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watcher.Stop)
	if event := <-watcher.ResultChan(); event.Type != watch.Added {
		t.Fatalf("got %v, want the Pod", event)
	}
	return watcher
}

// R141, R186: an etcd that is emptied while the server is running is not served as empty,
// and no deletion is reported.
func TestEmptiedEtcdIsNotEmpty(t *testing.T) {
	g := startGuarded(t)
	watcher := g.watch(t)
	g.empty(t)
	if event := <-watcher.ResultChan(); event.Type != watch.Error || !apierrors.IsServiceUnavailable(apierrors.FromObject(event.Object)) {
		t.Fatalf("watch: got %v, want 503", event)
	}
	if event, open := <-watcher.ResultChan(); open {
		t.Errorf("watch goes on with %v", event)
	}
	if err := g.backend.Gate().Usable(); err == nil {
		t.Error("storage is still open")
	}
}

// R141: whatever would show that an object is absent fails instead, each on its own.
func TestAbsencesInEmptiedEtcdAreErrors(t *testing.T) {
	for what, request := range map[string]func(context.Context, *guarded) error{
		"list": func(ctx context.Context, g *guarded) error {
			_, err := g.list(ctx, "")
			return err
		},
		"list from cache": func(ctx context.Context, g *guarded) error {
			_, err := g.list(ctx, "0")
			return err
		},
		"get": func(ctx context.Context, g *guarded) error {
			return g.Get(ctx, "/pods/shop/web", storage.GetOptions{}, &example.Pod{})
		},
		"get, ignoring that it is absent": func(ctx context.Context, g *guarded) error {
			return g.Get(ctx, "/pods/shop/web", storage.GetOptions{IgnoreNotFound: true}, &example.Pod{})
		},
		"delete": func(ctx context.Context, g *guarded) error {
			return g.Delete(ctx, "/pods/shop/web", &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
		},
		"update": func(ctx context.Context, g *guarded) error {
			return g.GuaranteedUpdate(ctx, "/pods/shop/web", &example.Pod{}, false, nil, storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
				object.(*example.Pod).Labels = map[string]string{"a": "b"}
				return object, nil
			}), nil)
		},
		"watch": func(ctx context.Context, g *guarded) error {
			_, err := g.Watch(ctx, "/pods", storage.ListOptions{Recursive: true, Predicate: storage.Everything})
			return err
		},
		"check": func(ctx context.Context, g *guarded) error { return g.backend.Confirm(ctx) },
	} {
		t.Run(what, func(t *testing.T) {
			g := startGuarded(t)
			g.empty(t)
			if err := request(t.Context(), g); !apierrors.IsServiceUnavailable(err) {
				t.Errorf("got %v, want 503", err)
			}
			if err := g.backend.Gate().Usable(); err == nil {
				t.Error("storage is still open")
			}
		})
	}
}

// R141, R186: nor is an etcd that is replaced with another one. Its revisions are lower.
func TestReplacedEtcdIsNotServed(t *testing.T) {
	for what, fill := range map[string]func(*testing.T, *guarded){
		"empty":              func(*testing.T, *guarded) {},
		"of another cluster": func(t *testing.T, g *guarded) { g.putMarker(t, "theirs") },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			g := startGuarded(t)
			watcher := g.watch(t)
			g.replace(t)
			fill(t, g)
			for closed := false; !closed; { // the clients of etcd have to connect again
				for _, version := range []string{"", "0"} {
					if count, err := g.list(t.Context(), version); err == nil || apierrors.IsNotFound(err) {
						t.Fatalf("list with version %q: got %d Pods, %v", version, count, err)
					}
				}
				closed = g.backend.Gate().Usable() != nil
			}
			select {
			case event := <-watcher.ResultChan():
				if event.Type != watch.Error {
					t.Errorf("got %v", event)
				}
			default: // the watch may wait for a revision that the other etcd does not have yet
			}
		})
	}
}

// Deletions are reported as ever.
func TestDeletionInEtcdIsReported(t *testing.T) {
	g := startGuarded(t)
	watcher := g.watch(t)
	if err := g.Delete(t.Context(), "/pods/shop/web", &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if event := <-watcher.ResultChan(); event.Type != watch.Deleted {
		t.Errorf("got %v, want the deletion", event)
	}
	if count, err := g.list(t.Context(), ""); err != nil || count != 0 {
		t.Errorf("got %d Pods, %v, want none", count, err)
	}
	if err := g.Get(t.Context(), "/pods/shop/web", storage.GetOptions{}, &example.Pod{}); !storage.IsNotFound(err) {
		t.Errorf("got %v, want that it does not exist", err)
	}
}

// R141: when the storage is restored, the server is restarted: its watch cache is not the
// storage any more.
func TestRestoredEtcdIsNotOpenedWithoutARestart(t *testing.T) {
	g := startGuarded(t)
	g.empty(t)
	if err := g.backend.Confirm(t.Context()); err == nil {
		t.Fatal("storage is still open")
	}
	select {
	case <-g.backend.Replaced():
		t.Fatal("restart before the storage is restored")
	default:
	}
	g.putMarker(t, "mine")
	if err := g.backend.Open(t.Context()); err == nil || g.backend.Gate().Usable() == nil {
		t.Errorf("storage was opened: %v", err)
	}
	select {
	case <-g.backend.Replaced():
	case <-time.After(storageTimeout):
		t.Error("no restart")
	}
}
