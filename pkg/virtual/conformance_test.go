// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

// TestStorageConformance runs the storage tests of Kubernetes that concern reads.
// It omits the tests of
//   - writes, TTLs, encryption, sizes and compaction, which do not exist here, and
//     KeySchema, which starts with writes;
//   - pagination: limit is ignored and a continue token is 410;
//   - Get and GetListNonRecursive, some cases of which read at a future version or
//     at an exact version by key alone, which is 410 here;
//   - ConsistentList, which requires an etcd that is ahead of the watch cache.
//
// TestListsKeepTheirVersionSemantics and TestUnknownVersionsAreGone cover these
// cases.
func TestStorageConformance(t *testing.T) {
	for name, run := range map[string]func(context.Context, *testing.T, storage.Interface){
		"Watch":                                  storagetesting.RunTestWatch,
		"DeleteTriggerWatch":                     storagetesting.RunTestDeleteTriggerWatch,
		"WatchFromNonZero":                       storagetesting.RunTestWatchFromNonZero,
		"DelayedWatchDelivery":                   storagetesting.RunTestDelayedWatchDelivery,
		"WatcherTimeout":                         storagetesting.RunTestWatcherTimeout,
		"WatchContextCancel":                     storagetesting.RunTestWatchContextCancel,
		"WatchDeleteEventObjectHaveLatestRV":     storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV,
		"WatchInitializationSignal":              storagetesting.RunTestWatchInitializationSignal,
		"ClusterScopedWatch":                     storagetesting.RunTestClusterScopedWatch,
		"NamespaceScopedWatch":                   storagetesting.RunTestNamespaceScopedWatch,
		"SendInitialEventsBackwardCompatibility": storagetesting.RunSendInitialEventsBackwardCompatibility,
		"WatchSemantics":                         storagetesting.RunWatchSemantics,
		"WatchSemanticInitialEventsExtended":     storagetesting.RunWatchSemanticInitialEventsExtended,
		"WatchListMatchSingle":                   storagetesting.RunWatchListMatchSingle,
		"GetListRecursivePrefix":                 storagetesting.RunTestGetListRecursivePrefix,
		"NamespaceScopedList":                    storagetesting.RunTestNamespaceScopedList,
	} {
		t.Run(name, func(t *testing.T) { run(t.Context(), t, newWritable(t, name != "ClusterScopedWatch")) })
	}
	// These wait for what comes every few seconds, and set no feature gates.
	for name, run := range map[string]func(context.Context, *testing.T, storage.Interface){
		"DelayedWatchDelivery":                             storagetesting.RunTestDelayedWatchDelivery,
		"OptionalWatchBookmarksWithCorrectResourceVersion": storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion,
		"WatchDispatchBookmarkEvents": func(ctx context.Context, t *testing.T, s storage.Interface) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, s, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t.Context(), t, newWritable(t, true))
		})
	}
}

// writable lets the tests of Kubernetes write to a store. They are written for
// etcd, which is slower: a write returns when the watch cache has observed it, so
// that watchers are not terminated as too slow.
type writable struct {
	storage.Interface
	store *virtual.Store
	// first is the version that the tests know as 1, the first of an etcd.
	first string
}

func newWritable(t *testing.T, namespaced bool) *writable {
	t.Helper()
	exampleScheme := runtime.NewScheme()
	utilruntime.Must(example.AddToScheme(exampleScheme))
	utilruntime.Must(examplev1.AddToScheme(exampleScheme))
	resource := schema.GroupResource{Resource: "pods"}
	newFunc := func() runtime.Object { return &example.Pod{} }
	newListFunc := func() runtime.Object { return &example.PodList{} }
	store := virtual.NewStore(virtual.Config{
		Resource: resource, NewFunc: newFunc, NewListFunc: newListFunc, Namespaced: namespaced, Versions: virtual.NewVersionSource(clock.RealClock{}),
	})
	registry := &genericregistry.Store{
		NewFunc: newFunc, NewListFunc: newListFunc,
		DefaultQualifiedResource: resource, SingularQualifiedResource: schema.GroupResource{Resource: "pod"},
		UpdateStrategy: scope{namespaced: namespaced}, DeleteStrategy: exampleScheme,
		TableConvertor: rest.NewDefaultTableConvertor(resource),
		KeyRootFunc:    func(context.Context) string { return "/pods" },
		KeyFunc: func(ctx context.Context, name string) (string, error) {
			if !namespaced {
				return "/pods/" + name, nil
			}
			return "/pods/" + genericapirequest.NamespaceValue(ctx) + "/" + name, nil
		},
	}
	codec := serializer.NewCodecFactory(exampleScheme).LegacyCodec(examplev1.SchemeGroupVersion)
	if err := registry.CompleteWithOptions(&generic.StoreOptions{RESTOptions: store.RESTOptions(codec), AttrFunc: podAttributes}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { store.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); registry.Destroy() })
	store.MarkSynced()
	if err := registry.Storage.GetList(ctx, "/pods", storage.ListOptions{Predicate: storage.Everything, Recursive: true}, newListFunc()); err != nil {
		t.Fatal(err) // waits until the watch cache is ready, which not every test does
	}
	first, err := registry.Storage.Storage.GetCurrentResourceVersion(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &writable{Interface: registry.Storage.Storage, store: store, first: strconv.FormatUint(first, 10)}
}

// Watch implements storage.Interface. Tests expect the objects that were written.
func (w *writable) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if opts.ResourceVersion == "1" {
		opts.ResourceVersion = w.first
	}
	watcher, err := w.Interface.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	unwrapped := unwrappedWatch{watcher, make(chan watch.Event, manyEvents)}
	go unwrapped.run()
	return unwrapped, nil
}

// manyEvents is more than any of the tests makes for one watch.
const manyEvents = 1000

// unwrappedWatch is a watch of what the objects of another one wrap. It ends with that one.
type unwrappedWatch struct {
	watch.Interface
	result chan watch.Event
}

// ResultChan implements watch.Interface.
func (u unwrappedWatch) ResultChan() <-chan watch.Event { return u.result }

func (u unwrappedWatch) run() {
	defer close(u.result)
	for event := range u.Interface.ResultChan() {
		event.Object = encoded.Unwrap(event.Object)
		u.result <- event
	}
}

func podAttributes(object runtime.Object) (labels.Set, fields.Set, error) {
	pod := object.(*example.Pod)
	return pod.Labels, fields.Set{"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "spec.nodeName": pod.Spec.NodeName}, nil
}

func (w *writable) at(key string) (runtime.Object, bool) {
	namespace, name, namespaced := strings.Cut(strings.TrimPrefix(key, "/pods/"), "/")
	if !namespaced {
		namespace, name = "", namespace
	}
	return w.store.Get(namespace, name)
}

// Create implements storage.Interface.
func (w *writable) Create(ctx context.Context, key string, obj, out runtime.Object, _ uint64) error {
	if _, exists := w.at(key); exists {
		return storage.NewKeyExistsError(key, 0)
	}
	created := obj.DeepCopyObject()
	w.store.Set(created)
	return w.cached(ctx, key, created, out)
}

// Delete implements storage.Interface.
func (w *writable) Delete(ctx context.Context, key string, out runtime.Object, _ *storage.Preconditions, _ storage.ValidateObjectFunc, _ runtime.Object, _ storage.DeleteOptions) error {
	held, exists := w.at(key)
	if !exists {
		return storage.NewKeyNotFoundError(key, 0)
	}
	accessor, err := meta.Accessor(held)
	if err != nil {
		return err
	}
	w.store.Delete(accessor.GetNamespace(), accessor.GetName())
	version, err := w.GetCurrentResourceVersion(ctx)
	if err != nil {
		return err
	}
	held.(*example.Pod).DeepCopyInto(out.(*example.Pod))
	return w.Versioner().UpdateObject(out, version)
}

// GuaranteedUpdate implements storage.Interface.
func (w *writable) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool, _ *storage.Preconditions, tryUpdate storage.UpdateFunc, _ runtime.Object) error {
	held, exists := w.at(key)
	if !exists {
		if !ignoreNotFound {
			return storage.NewKeyNotFoundError(key, 0)
		}
		held = &example.Pod{}
	}
	updated, _, err := tryUpdate(held.DeepCopyObject(), storage.ResponseMeta{})
	if err != nil {
		return err
	}
	updated = updated.DeepCopyObject()
	w.store.Set(updated)
	current, exists := w.at(key)
	if !exists {
		return fmt.Errorf("the object does not have key %s", key)
	}
	return w.cached(ctx, key, current, out)
}

// cached returns the object once the watch cache has it.
func (w *writable) cached(ctx context.Context, key string, object, out runtime.Object) error {
	if out == nil {
		out = &example.Pod{}
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	return w.Get(ctx, key, storage.GetOptions{ResourceVersion: accessor.GetResourceVersion()}, out)
}
