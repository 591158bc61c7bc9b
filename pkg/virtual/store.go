// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"context"
	"fmt"
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
)

// heartbeatPeriod is how often a store that nothing happens to issues a
// version, so that the newest one that a client knows is never old.
const heartbeatPeriod = time.Second

// Config says what a store holds.
type Config struct {
	Resource schema.GroupResource
	// NewFunc and NewListFunc return the hub type, as in genericregistry.Store.
	NewFunc, NewListFunc func() runtime.Object
	Namespaced           bool
	// Versions is shared by all stores of a process.
	Versions *Clock
	// Clock paces the heartbeat and the watch cache. The default is the
	// real one.
	Clock clock.WithTicker
	// Equal says whether an update changes nothing. Both objects have the
	// same resourceVersion when it is called. The default is semantic
	// equality.
	Equal func(held, updated runtime.Object) bool
}

// Store holds the objects of one virtual resource. It is safe for concurrent
// use, and no method waits for those who watch.
type Store struct {
	config Config
	prefix string

	mu      sync.RWMutex
	objects map[string]runtime.Object
	issued  ledger
	// newest is the last version issued, changed the last one that changed
	// an object: between the two the content is the same.
	newest, changed uint64
	synced, stopped bool
	streams         map[*stream]struct{}
	closers         []func()
}

// NewStore returns an empty store, which refuses to be read until MarkSynced.
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
		objects: map[string]runtime.Object{},
		streams: map[*stream]struct{}{},
	}
	s.changed = s.issue()
	return s
}

// Set adds or replaces an object and says whether that changed anything. The
// store owns the object from then on and nobody may modify it; the store
// itself sets its resourceVersion. Nothing happens when the object is equal to
// the one that is held. When the two have different UIDs, watchers see one
// object deleted and another added. The object must be of the type that
// NewFunc returns.
func (s *Store) Set(object runtime.Object) bool {
	updated := metadataOf(object)
	key := s.key(updated.GetNamespace(), updated.GetName())

	s.mu.Lock()
	defer s.mu.Unlock()
	event := watch.Added
	if held, exists := s.objects[key]; exists {
		old := metadataOf(held)
		updated.SetResourceVersion(old.GetResourceVersion())
		switch {
		case old.GetUID() != updated.GetUID():
			s.remove(key, held)
		case s.config.Equal(held, object):
			return false
		default:
			event = watch.Modified
		}
	}
	s.changed = s.issue()
	updated.SetResourceVersion(formatVersion(s.changed))
	s.objects[key] = object
	s.publish(watch.Event{Type: event, Object: object})
	return true
}

// Delete removes an object and says whether it was there.
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

// Get returns an object, which is shared and must not be modified. It answers
// also before MarkSynced: it is there for the one who writes.
func (s *Store) Get(namespace, name string) (runtime.Object, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	object, exists := s.objects[s.key(namespace, name)]
	return object, exists
}

// List returns all objects, ordered by namespace and name, with the same
// conditions as Get.
func (s *Store) List() []runtime.Object {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.sorted()
}

// MarkSynced declares that the objects set so far are all there are. Before,
// clients are told to come back later: an absent object would look deleted.
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

// Run issues a version every second, so that clients can go on from a recent
// one after a quiet time. When the context ends, it ends all watches; what is
// read afterwards is refused like before MarkSynced.
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

	// Not under the lock: both wait for goroutines that may want it.
	for _, closer := range closers {
		closer()
	}
	for _, stream := range streams {
		stream.Stop()
		<-stream.finished
	}
}

// remove takes an object out. What watchers get is a copy, since it carries
// the version of the deletion. The lock is held.
func (s *Store) remove(key string, held runtime.Object) {
	s.changed = s.issue()
	delete(s.objects, key)
	deleted := held.DeepCopyObject()
	metadataOf(deleted).SetResourceVersion(formatVersion(s.changed))
	s.publish(watch.Event{Type: watch.Deleted, Object: deleted})
}

// issue takes a version and remembers it. The lock is held.
func (s *Store) issue() uint64 {
	s.newest = s.config.Versions.Next()
	s.issued.add(s.newest)
	return s.newest
}

// publish hands an event to all streams. One that waits for MarkSynced gets
// the object then. The lock is held.
func (s *Store) publish(event watch.Event) {
	if !s.synced {
		return
	}
	for stream := range s.streams {
		stream.push(event)
	}
}

// knows says whether this store issued the version, and not too long ago.
func (s *Store) knows(version uint64) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.issued.knows(version, s.config.Clock.Now())
}

// sorted returns the objects by key. The lock is held.
func (s *Store) sorted() []runtime.Object {
	keys := make([]string, 0, len(s.objects))
	for key := range s.objects {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	objects := make([]runtime.Object, 0, len(keys))
	for _, key := range keys {
		objects = append(objects, s.objects[key])
	}
	return objects
}

// key is where genericregistry.Store looks for an object.
func (s *Store) key(namespace, name string) string {
	if s.config.Namespaced {
		return s.prefix + "/" + namespace + "/" + name
	}
	return s.prefix + "/" + name
}

func formatVersion(version uint64) string { return strconv.FormatUint(version, 10) }

// metadataOf panics for what is no API object, which only a mistake in this
// program can bring here.
func metadataOf(object runtime.Object) metav1.Object {
	accessor, err := meta.Accessor(object)
	if err != nil {
		panic(fmt.Sprintf("a virtual resource cannot hold %T: %v", object, err))
	}
	return accessor
}
