// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

// heartbeatPeriod is how often a store issues a version without a change, so
// that the newest version that a client knows is always recent.
const heartbeatPeriod = time.Second

// Config describes a store.
type Config struct {
	Resource schema.GroupResource
	// NewFunc and NewListFunc return the hub type, as in genericregistry.Store.
	NewFunc, NewListFunc func() runtime.Object
	Namespaced           bool
	// Versions is shared by all stores of a process.
	Versions *VersionSource
	// Clock drives the heartbeat and the watch cache. The default is the real
	// clock.
	Clock clock.WithTicker
	// Equal reports whether an update changes nothing. Both objects have the same
	// resourceVersion when it is called. The default is semantic equality.
	Equal func(held, updated runtime.Object) bool
	// Encodings limits how many bytes of encodings are kept for readers. Without it,
	// objects are encoded once per reader.
	Encodings *encoded.Budget
}

// Store holds the objects of one virtual resource. It is safe for concurrent
// use, and no method waits for watchers.
type Store struct {
	config Config
	prefix string

	mu      sync.RWMutex
	objects map[string]*encoded.Object
	issued  issuedVersions
	// newest is the last issued version and changed the last one that changed an
	// object. The content is the same between the two.
	newest, changed uint64
	synced, stopped bool
	streams         map[*stream]struct{}
	closers         []func()
}

// NewStore returns an empty store, which rejects reads until MarkSynced.
func NewStore(config Config) *Store {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Equal == nil {
		config.Equal = func(held, updated runtime.Object) bool {
			return apiequality.Semantic.DeepEqual(held, updated)
		}
	}
	s := &Store{
		config:  config,
		prefix:  path.Join("/", config.Resource.Group, config.Resource.Resource),
		objects: map[string]*encoded.Object{},
		streams: map[*stream]struct{}{},
	}
	s.changed = s.issue()
	return s
}

// Set adds or replaces an object and reports whether that changed anything. The
// store sets the resourceVersion and owns the object, which must not be modified
// afterwards. Set does nothing if the object equals the stored one. If the two
// have different UIDs, watchers see a deletion and an addition. The object must
// have the type that NewFunc returns.
func (s *Store) Set(object runtime.Object) bool {
	updated := metadataOf(object)
	key := s.key(updated.GetNamespace(), updated.GetName())

	s.mu.Lock()
	defer s.mu.Unlock()
	event := watch.Added
	if held, exists := s.objects[key]; exists {
		updated.SetResourceVersion(held.GetResourceVersion())
		switch {
		case held.GetUID() != updated.GetUID():
			s.remove(key, held)
		case s.config.Equal(encoded.Unwrap(held), object):
			return false
		default:
			held.Release()
			event = watch.Modified
		}
	}
	s.changed = s.issue()
	updated.SetResourceVersion(formatVersion(s.changed))
	// In lists, encodings have no kind, as the hub types have none.
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	added := encoded.Wrap(object, s.config.Encodings)
	s.objects[key] = added
	s.publish(watch.Event{Type: event, Object: added})
	return true
}

// Changes reports whether Set would change anything. As with Set, the object must not be
// used otherwise.
func (s *Store) Changes(object runtime.Object) bool {
	updated := metadataOf(object)
	s.mu.RLock()
	defer s.mu.RUnlock()
	held, exists := s.objects[s.key(updated.GetNamespace(), updated.GetName())]
	if !exists {
		return true
	}
	updated.SetResourceVersion(held.GetResourceVersion())
	return !s.config.Equal(encoded.Unwrap(held), object)
}

// Delete removes an object and reports whether it existed.
func (s *Store) Delete(namespace, name string) bool {
	key := s.key(namespace, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	held, exists := s.objects[key]
	if exists {
		s.remove(key, held)
	}
	return exists
}

// Get returns an object, which is shared and must not be modified. It is meant
// for the writer and works before MarkSynced too.
func (s *Store) Get(namespace, name string) (runtime.Object, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	object, exists := s.objects[s.key(namespace, name)]
	if !exists {
		return nil, false
	}
	return encoded.Unwrap(object), true
}

// List returns all objects, ordered by namespace and name. As with Get, the
// objects are shared.
func (s *Store) List() []runtime.Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sorted := s.sorted()
	objects := make([]runtime.Object, len(sorted))
	for i, object := range sorted {
		objects[i] = encoded.Unwrap(object)
	}
	return objects
}

// Each calls a function for each object, in no order. As with Get, the objects are shared. The
// function may take its time: nobody waits for it.
func (s *Store) Each(visit func(runtime.Object)) {
	s.mu.RLock()
	objects := slices.Collect(maps.Values(s.objects))
	s.mu.RUnlock()
	for _, object := range objects {
		visit(encoded.Unwrap(object))
	}
}

// Len returns how many objects there are.
func (s *Store) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.objects)
}

// MarkSynced declares that the store is complete. Before that, clients are asked
// to retry, because a missing object would look deleted.
func (s *Store) MarkSynced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.synced {
		return
	}
	s.synced = true
	s.issue()
	for stream := range s.streams {
		stream.push(s.initialEvents()...)
	}
}

// Run issues a version every second, so that clients can continue from a recent
// one after a period without changes. When the context ends, it ends all watches
// and the store rejects reads as before MarkSynced.
func (s *Store) Run(ctx context.Context) {
	defer s.stop()
	ticker := s.config.Clock.NewTicker(heartbeatPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			s.heartbeat()
		}
	}
}

func (s *Store) heartbeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issue()
	s.publish(s.bookmark())
}

func (s *Store) stop() {
	s.mu.Lock()
	s.stopped = true
	closers := s.closers
	s.closers = nil
	streams := make([]*stream, 0, len(s.streams))
	for stream := range s.streams {
		streams = append(streams, stream)
	}
	s.mu.Unlock()

	// Without the lock: both wait for goroutines that may need it.
	for _, closer := range closers {
		closer()
	}
	for _, stream := range streams {
		stream.Stop()
		<-stream.finished
	}
}

// remove removes an object. Watchers get a copy that carries the version of the
// deletion. The caller holds the lock.
func (s *Store) remove(key string, held *encoded.Object) {
	s.changed = s.issue()
	delete(s.objects, key)
	held.Release()
	deleted := held.DeepCopyObject()
	metadataOf(deleted).SetResourceVersion(formatVersion(s.changed))
	s.publish(watch.Event{Type: watch.Deleted, Object: deleted})
}

// issue issues a version and remembers it. The caller holds the lock.
func (s *Store) issue() uint64 {
	s.newest = s.config.Versions.Next()
	s.issued.add(s.newest)
	return s.newest
}

// publish sends an event to all streams. Before MarkSynced it does nothing:
// streams get all objects then. The caller holds the lock.
func (s *Store) publish(event watch.Event) {
	if !s.synced {
		return
	}
	for stream := range s.streams {
		stream.push(event)
	}
}

// issuedRecently reports whether this store issued the version and still
// remembers it.
func (s *Store) issuedRecently(version uint64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.issued.contains(version, s.config.Clock.Now())
}

// sorted returns the objects ordered by key. The caller holds the lock.
func (s *Store) sorted() []*encoded.Object {
	keys := make([]string, 0, len(s.objects))
	for key := range s.objects {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	objects := make([]*encoded.Object, 0, len(keys))
	for _, key := range keys {
		objects = append(objects, s.objects[key])
	}
	return objects
}

// key returns the key under which genericregistry.Store looks up an object.
func (s *Store) key(namespace, name string) string {
	if s.config.Namespaced {
		return s.prefix + "/" + namespace + "/" + name
	}
	return s.prefix + "/" + name
}

func formatVersion(version uint64) string { return strconv.FormatUint(version, 10) }

// metadataOf returns the metadata of an API object. It panics for anything else,
// which would be a programming error.
func metadataOf(object runtime.Object) metav1.Object {
	accessor, err := meta.Accessor(object)
	if err != nil {
		panic(fmt.Sprintf("virtual store cannot hold %T: %v", object, err))
	}
	return accessor
}
