// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

func newTestStore(namespaced bool) *Store {
	return NewStore(Config{
		Resource:    multicluster.XResource("serviceimports"),
		NewFunc:     func() runtime.Object { return &multicluster.ServiceImport{} },
		NewListFunc: func() runtime.Object { return &multicluster.ServiceImportList{} },
		Namespaced:  namespaced,
		Versions:    NewVersionSource(clock.RealClock{}),
	})
}

func testObject(namespace, name, uid, ip string) *multicluster.ServiceImport {
	return &multicluster.ServiceImport{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)},
		Spec:       multicluster.ServiceImportSpec{IPs: []string{ip}},
	}
}

// watchAll watches like the watch cache does.
func watchAll(t *testing.T, store *Store) watch.Interface {
	t.Helper()
	w, err := backend{store}.Watch(t.Context(), store.prefix, storage.ListOptions{
		Recursive: true, Predicate: storage.Everything, SendInitialEvents: ptr.To(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

func expectEvents(t *testing.T, w watch.Interface, want ...string) {
	t.Helper()
	for _, text := range want {
		event := <-w.ResultChan()
		got := string(event.Type)
		if o, ok := encoded.Unwrap(event.Object).(*multicluster.ServiceImport); ok && event.Type != watch.Bookmark {
			got += " " + o.Name + " " + o.Spec.IPs[0]
		}
		if got != text {
			t.Fatalf("got %q, want %q", got, text)
		}
	}
}

func TestSetReportsWhetherAnythingChanged(t *testing.T) {
	store := newTestStore(true)
	store.MarkSynced()
	w := watchAll(t, store)
	first := testObject("a", "x", "1", "1.1.1.1")
	same := testObject("a", "x", "1", "1.1.1.1")
	same.ResourceVersion = "whatever its writer left there"
	for i, step := range []struct {
		object *multicluster.ServiceImport
		want   bool
	}{
		{first, true},
		{same, false},
		{testObject("a", "x", "1", "2.2.2.2"), true},
		{testObject("a", "x", "2", "2.2.2.2"), true},
	} {
		if got := store.Set(step.object); got != step.want {
			t.Errorf("step %d: got %v, want %v", i, got, step.want)
		}
	}
	if !store.Delete("a", "x") || store.Delete("a", "x") {
		t.Error("Delete does not report correctly whether the object existed")
	}
	expectEvents(t, w, "BOOKMARK", "ADDED x 1.1.1.1", "MODIFIED x 2.2.2.2", "DELETED x 2.2.2.2", "ADDED x 2.2.2.2", "DELETED x 2.2.2.2")
	if first.Spec.IPs[0] != "1.1.1.1" || first.ResourceVersion == "" {
		t.Errorf("the first object was modified to %+v", first)
	}
}

func TestEqualDefinesAChange(t *testing.T) {
	store := newTestStore(true)
	store.config.Equal = func(held, updated runtime.Object) bool {
		return held.(*multicluster.ServiceImport).ResourceVersion == updated.(*multicluster.ServiceImport).ResourceVersion
	}
	if !store.Set(testObject("a", "x", "1", "1.1.1.1")) || store.Set(testObject("a", "x", "1", "2.2.2.2")) {
		t.Error("Set ignored Equal")
	}
}

func TestStoredObjectsAreNeverModified(t *testing.T) {
	store := newTestStore(true)
	object := testObject("a", "x", "1", "1.1.1.1")
	store.Set(object)
	before := object.DeepCopy()
	store.Set(testObject("a", "x", "1", "2.2.2.2"))
	store.Set(testObject("a", "x", "2", "3.3.3.3"))
	store.Delete("a", "x")
	if object.ResourceVersion != before.ResourceVersion || !slices.Equal(object.Spec.IPs, before.Spec.IPs) {
		t.Errorf("got %+v, was %+v", object, before)
	}
}

// R520: objects may be changed while they are counted.
func TestObjectsCanChangeWhileTheyAreVisited(t *testing.T) {
	store := newTestStore(true)
	store.Set(testObject("ns", "a", "1", "10.0.0.1"))
	store.Set(testObject("ns", "b", "2", "10.0.0.2"))
	visited := 0
	store.Each(func(runtime.Object) {
		visited++
		if !store.mu.TryLock() {
			t.Fatal("the store is locked")
		}
		store.mu.Unlock()
	})
	if visited != 2 {
		t.Errorf("%d objects were visited", visited)
	}
}

func TestObjectsAreListedByKey(t *testing.T) {
	store := newTestStore(true)
	for _, key := range []string{"b/a", "a-b/z", "a/b", "a/a"} {
		namespace, name, _ := strings.Cut(key, "/")
		store.Set(testObject(namespace, name, "1", "1.1.1.1"))
	}
	var got []string
	for _, object := range store.List() {
		o := object.(*multicluster.ServiceImport)
		got = append(got, o.Namespace+"/"+o.Name)
	}
	if want := []string{"a-b/z", "a/a", "a/b", "b/a"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestClusterScopedObjectsHaveNoNamespaceInTheirKey(t *testing.T) {
	store := newTestStore(false)
	store.Set(testObject("", "x", "1", "1.1.1.1"))
	store.MarkSynced()
	into := &encoded.Object{}
	if err := (backend{store}).Get(t.Context(), store.prefix+"/x", storage.GetOptions{}, into); err != nil || into.GetName() != "x" {
		t.Errorf("got %v, %v", into, err)
	}
	if _, ok := store.Get("", "x"); !ok {
		t.Error("Get does not find the object")
	}
}

func TestStreamWaitsForTheStoreToBeSynced(t *testing.T) {
	store := newTestStore(true)
	store.Set(testObject("a", "x", "1", "1.1.1.1"))
	w := watchAll(t, store)
	store.Set(testObject("a", "x", "1", "2.2.2.2"))
	store.heartbeat()
	select {
	case event := <-w.ResultChan():
		t.Fatalf("got %v before the store was synced", event)
	default:
	}
	store.MarkSynced()
	store.MarkSynced() // does nothing
	store.Set(testObject("a", "y", "1", "3.3.3.3"))
	expectEvents(t, w, "ADDED x 2.2.2.2", "BOOKMARK", "ADDED y 3.3.3.3")
}

func TestWritesDoNotWaitForWatchers(t *testing.T) {
	store := newTestStore(true)
	store.MarkSynced()
	w := watchAll(t, store)
	const burst = 10_000
	for i := range burst {
		store.Set(testObject("a", "x", "1", fmt.Sprint(i)))
	}
	expectEvents(t, w, "BOOKMARK", "ADDED x 0")
	for i := 1; i < burst; i++ {
		expectEvents(t, w, fmt.Sprintf("MODIFIED x %d", i))
	}
}

func TestWatchFromAVersionRequiresThatNothingChangedSince(t *testing.T) {
	store := newTestStore(true)
	from := func(version string) (watch.Interface, error) {
		return backend{store}.Watch(t.Context(), store.prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything, ResourceVersion: version})
	}
	object := testObject("a", "x", "1", "1.1.1.1")
	store.Set(object)
	if _, err := from(object.ResourceVersion); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("before the store is synced: got %v", err)
	}
	store.MarkSynced()
	store.heartbeat()
	w, err := from(object.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	store.Set(testObject("a", "x", "1", "2.2.2.2"))
	expectEvents(t, w, "MODIFIED x 2.2.2.2")
	if _, err := from(object.ResourceVersion); !apierrors.IsResourceExpired(err) {
		t.Errorf("after a change: got %v", err)
	}
}

func TestOnlyTheWholeResourceCanBeWatched(t *testing.T) {
	store := newTestStore(true)
	for _, key := range []string{"/other", store.prefix + "/a", store.prefix + "-b"} {
		if _, err := (backend{store}).Watch(t.Context(), key, storage.ListOptions{Recursive: true, Predicate: storage.Everything}); err == nil {
			t.Errorf("%s can be watched", key)
		}
	}
}

func TestRunEndsEveryStream(t *testing.T) {
	store := newTestStore(true)
	store.MarkSynced()
	watches := []watch.Interface{watchAll(t, store), watchAll(t, store)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	store.Run(ctx)
	for _, w := range watches {
		for range w.ResultChan() { // until it is closed
		}
	}
	if len(store.streams) != 0 {
		t.Errorf("%d streams remain", len(store.streams))
	}
	if _, err := (backend{store}).Watch(t.Context(), store.prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a new watch got %v", err)
	}
}

func TestWritesThroughTheStorageAreRejected(t *testing.T) {
	b := backend{newTestStore(true)}
	for verb, err := range map[string]error{
		"create": b.Create(t.Context(), "", nil, nil, 0),
		"delete": b.Delete(t.Context(), "", nil, nil, nil, nil, storage.DeleteOptions{}),
		"update": b.GuaranteedUpdate(t.Context(), "", nil, false, nil, nil, nil),
	} {
		if !apierrors.IsMethodNotSupported(err) || !strings.Contains(err.Error(), "is computed") {
			t.Errorf("%s: got %v", verb, err)
		}
	}
}

func TestOptionsAreForOneResource(t *testing.T) {
	if _, err := newTestStore(true).RESTOptions(nil).GetRESTOptions(schema.GroupResource{Resource: "pods"}, nil); err == nil {
		t.Error("another resource can be served from the store")
	}
}
