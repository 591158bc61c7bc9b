// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

// backend adapts a store to the interface that the watch cache reads from. The
// watch cache is its only watcher and keeps the history; the backend only has
// the current state.
type backend struct {
	*Store
}

var _ storage.Interface = backend{}

// Versioner implements storage.Interface.
func (b backend) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

// Watch delivers the whole resource: all objects, a bookmark that ends the
// initial events, and then every change. Before MarkSynced it delivers nothing
// rather than an error, after which the watch cache would wait for a second.
func (b backend) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if key != b.prefix || !opts.Recursive || !opts.Predicate.Empty() {
		return nil, fmt.Errorf("only the whole resource %s can be watched", b.config.Resource)
	}
	version, err := b.Versioner().ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	fromNow := opts.SendInitialEvents != nil && *opts.SendInitialEvents || version == 0

	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.stopped:
		return nil, b.unavailable("is shutting down")
	case !fromNow && !b.synced:
		return nil, b.unavailable("has not been computed yet")
	case !fromNow && !b.isCurrent(version):
		return nil, expired(opts.ResourceVersion)
	}
	var stream *stream
	stream = newStream(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.streams, stream)
	})
	if fromNow && b.synced {
		stream.push(b.initialEvents()...)
	}
	b.streams[stream] = struct{}{}
	go stream.run(ctx)
	return stream, nil
}

// Get implements storage.Interface. It always returns the current state.
func (b backend) Get(_ context.Context, key string, opts storage.GetOptions, into runtime.Object) error {
	value, err := conversion.EnforcePtr(into)
	if err != nil {
		return err
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	if err := b.readable(); err != nil {
		return err
	}
	object, exists := b.objects[key]
	switch {
	case exists:
		value.Set(reflect.ValueOf(object).Elem())
	case opts.IgnoreNotFound:
		value.SetZero()
	default:
		return storage.NewKeyNotFoundError(key, int64(b.newest))
	}
	return nil
}

// GetList implements storage.Interface. It only has the current state, so an
// exact version is expired unless nothing has changed since.
func (b backend) GetList(_ context.Context, key string, opts storage.ListOptions, into runtime.Object) error {
	exactly, _, err := storage.ValidateListOptions(b.prefix, b.Versioner(), opts)
	if err != nil {
		return err
	}
	key, err = storage.PrepareKey(b.prefix, key, opts.Recursive)
	if err != nil {
		return err
	}
	selected, version, err := b.matching(key, uint64(exactly), opts)
	if err != nil {
		return err
	}
	pointer, err := meta.GetItemsPtr(into)
	if err != nil {
		return err
	}
	items, err := conversion.EnforcePtr(pointer)
	if err != nil {
		return err
	}
	items.Set(reflect.MakeSlice(items.Type(), len(selected), len(selected)))
	for i, object := range selected {
		items.Index(i).Set(reflect.ValueOf(object).Elem())
	}
	return b.Versioner().UpdateList(into, version, "", nil)
}

// matching returns the objects that a list selects, and its version.
func (b backend) matching(key string, exactly uint64, opts storage.ListOptions) ([]*encoded.Object, uint64, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if err := b.readable(); err != nil {
		return nil, 0, err
	}
	version := b.newest
	if exactly != 0 {
		if version = exactly; !b.isCurrent(version) {
			return nil, 0, expired(opts.ResourceVersion)
		}
	}
	var selected []*encoded.Object
	for _, object := range b.sorted() {
		at := b.key(object.GetNamespace(), object.GetName())
		if below := opts.Recursive && strings.HasPrefix(at, key); at != key && !below {
			continue
		}
		matches, err := opts.Predicate.Matches(encoded.Unwrap(object))
		if err != nil {
			return nil, 0, err
		}
		if matches {
			selected = append(selected, object)
		}
	}
	return selected, version, nil
}

// GetCurrentResourceVersion implements storage.Interface. The watch cache calls
// it for every consistent read and waits until it has observed this version,
// which has been sent already.
func (b backend) GetCurrentResourceVersion(context.Context) (uint64, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.newest, b.readable()
}

// RequestWatchProgress implements storage.Interface.
func (b backend) RequestWatchProgress(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.publish(b.bookmark())
	return nil
}

// Stats implements storage.Interface.
func (b backend) Stats(context.Context) (storage.Stats, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return storage.Stats{ObjectCount: int64(len(b.objects))}, nil
}

// ReadinessCheck implements storage.Interface.
func (b backend) ReadinessCheck() error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.readable() != nil {
		return storage.ErrStorageNotReady
	}
	return nil
}

// EnableResourceSizeEstimation implements storage.Interface. Objects are not
// encoded here, so their size is unknown.
func (b backend) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// CompactRevision implements storage.Interface. Nothing is ever compacted.
func (b backend) CompactRevision() int64 { return 0 }

// Create implements storage.Interface.
func (b backend) Create(context.Context, string, runtime.Object, runtime.Object, uint64) error {
	return b.readOnly("create")
}

// Delete implements storage.Interface.
func (b backend) Delete(context.Context, string, runtime.Object, *storage.Preconditions, storage.ValidateObjectFunc, runtime.Object, storage.DeleteOptions) error {
	return b.readOnly("delete")
}

// GuaranteedUpdate implements storage.Interface.
func (b backend) GuaranteedUpdate(context.Context, string, runtime.Object, bool, *storage.Preconditions, storage.UpdateFunc, runtime.Object) error {
	return b.readOnly("update")
}

// readOnly rejects a write, which no REST storage should pass on.
func (b backend) readOnly(verb string) error {
	err := apierrors.NewMethodNotSupported(b.config.Resource, verb)
	err.ErrStatus.Message = fmt.Sprintf("%s is computed and read-only", b.config.Resource)
	return err
}

// initialEvents returns all objects as ADDED events and the bookmark that ends
// them. The caller holds the lock.
func (s *Store) initialEvents() []watch.Event {
	events := make([]watch.Event, 0, len(s.objects)+1)
	for _, object := range s.sorted() {
		events = append(events, watch.Event{Type: watch.Added, Object: object})
	}
	end := s.bookmark()
	metadataOf(end.Object).SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	return append(events, end)
}

// bookmark returns a bookmark with the newest version. The caller holds the lock.
func (s *Store) bookmark() watch.Event {
	object := encoded.New(s.config.NewFunc())
	object.SetResourceVersion(formatVersion(s.newest))
	return watch.Event{Type: watch.Bookmark, Object: object}
}

// isCurrent reports whether nothing has changed since the version. The caller
// holds the lock.
func (s *Store) isCurrent(version uint64) bool {
	return s.changed <= version && version <= s.newest
}

// readable returns an error if the store cannot be read. The caller holds the lock.
func (s *Store) readable() error {
	switch {
	case s.stopped:
		return s.unavailable("is shutting down")
	case !s.synced:
		return s.unavailable("has not been computed yet")
	}
	return nil
}

// unavailable asks the client to retry: unknown is not empty.
func (s *Store) unavailable(why string) error {
	err := apierrors.NewServiceUnavailable(fmt.Sprintf("%s %s; retry later", s.config.Resource, why))
	err.ErrStatus.Details = &metav1.StatusDetails{
		Group:             s.config.Resource.Group,
		Kind:              s.config.Resource.Resource,
		RetryAfterSeconds: 1,
	}
	return err
}

// expired asks the client to list again.
func expired(version string) *apierrors.StatusError {
	return apierrors.NewResourceExpired(fmt.Sprintf("resource version %q is unknown or expired; list again without it", version))
}
