// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// watchBuffer is the number of events that are buffered for a slow client.
const watchBuffer = 100

// Guard returns storage in which the absence of an object means that the object was
// deleted, not that the etcd was emptied or replaced: whatever shows an absence is returned
// only if a marker that was read afterwards is that of the storage that was opened.
func (b *Backend) Guard(getter generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return guardedOptions{getter, b.Confirm}
}

type guardedOptions struct {
	generic.RESTOptionsGetter
	confirm func(ctx context.Context) error
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o guardedOptions) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := o.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	next := options.Decorator
	options.Decorator = func(config *storagebackend.ConfigForResource, resourcePrefix string, keyFunc func(obj runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object, attributes storage.AttrFunc, triggers storage.IndexerFuncs, indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		stored, destroy, err := next(config, resourcePrefix, keyFunc, newFunc, newListFunc, attributes, triggers, indexers)
		if err != nil {
			return nil, nil, err
		}
		return &guardedStorage{stored, o.confirm}, destroy, nil
	}
	return options, nil
}

// guardedStorage is above the watch cache, which takes emptied storage for empty.
type guardedStorage struct {
	storage.Interface
	confirm func(ctx context.Context) error
}

// absence returns the error of a request, unless it reports an absence that is not confirmed.
func (s *guardedStorage) absence(ctx context.Context, err error) error {
	if !storage.IsNotFound(err) {
		return err
	}
	if lost := s.confirm(ctx); lost != nil {
		return lost
	}
	return err
}

// Get implements storage.Interface.
func (s *guardedStorage) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	err := s.Interface.Get(ctx, key, opts, out)
	if err == nil && opts.IgnoreNotFound {
		return s.confirm(ctx)
	}
	return s.absence(ctx, err)
}

// GetList implements storage.Interface.
func (s *guardedStorage) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if err := s.Interface.GetList(ctx, key, opts, list); err != nil {
		return err
	}
	return s.confirm(ctx)
}

// Delete implements storage.Interface.
func (s *guardedStorage) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions,
) error {
	return s.absence(ctx, s.Interface.Delete(ctx, key, out, preconditions, validate, cached, opts))
}

// GuaranteedUpdate implements storage.Interface.
func (s *guardedStorage) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object,
) error {
	return s.absence(ctx, s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, update, cached))
}

// Watch implements storage.Interface. The start of a watch is confirmed as well: clients
// watch again when the connection to etcd was lost, and that may be another etcd now.
func (s *guardedStorage) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	source, err := s.Interface.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	if err := s.confirm(ctx); err != nil && ctx.Err() == nil {
		source.Stop()
		return nil, err
	}
	watching, cancel := context.WithCancel(ctx)
	w := &guardedWatch{confirm: s.confirm, cancel: cancel, result: make(chan watch.Event, watchBuffer)}
	go w.run(watching, source)
	return w, nil
}

// guardedWatch is a watch whose deletions are confirmed.
type guardedWatch struct {
	confirm func(ctx context.Context) error
	cancel  context.CancelFunc
	result  chan watch.Event
}

// ResultChan implements watch.Interface.
func (w *guardedWatch) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *guardedWatch) Stop() { w.cancel() }

func (w *guardedWatch) run(ctx context.Context, source watch.Interface) {
	defer close(w.result)
	defer w.cancel()
	defer source.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-source.ResultChan():
			if !open {
				return
			}
			var lost error
			if event.Type == watch.Deleted {
				lost = w.confirm(ctx)
			}
			if lost != nil {
				event = failure(lost)
			}
			select {
			case w.result <- event:
			case <-ctx.Done():
				return // without a gap between events
			}
			if lost != nil {
				return
			}
		}
	}
}

// failure returns the event that ends a watch.
func failure(err error) watch.Event {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	return watch.Event{Type: watch.Error, Object: ptr.To(status.Status())}
}
