// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache" // only to name a parameter of generic.StorageDecorator

	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

// RESTOptions returns options with which a genericregistry.Store reads this
// store through a watch cache of its own, without etcd. The codec must know the
// type that NewFunc returns: the watch cache requires a codec, although nothing
// is encoded with it. The watch cache runs until the storage is destroyed or Run
// ends. Serve only the read methods of the genericregistry.Store: it cannot be
// written and has no storage version to advertise.
func (s *Store) RESTOptions(codec runtime.Codec) generic.RESTOptionsGetter {
	return restOptions{store: s, codec: codec}
}

type restOptions struct {
	store *Store
	codec runtime.Codec
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o restOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	if resource != o.store.config.Resource {
		return generic.RESTOptions{}, fmt.Errorf("virtual store holds %s, not %s", o.store.config.Resource, resource)
	}
	config := storagebackend.Config{Codec: o.codec, EventsHistoryWindow: cacher.DefaultEventFreshDuration}
	return generic.RESTOptions{
		StorageConfig:  config.ForResource(resource),
		Decorator:      o.store.decorate,
		ResourcePrefix: o.store.prefix,
	}, nil
}

// decorate implements generic.StorageDecorator. The watch cache holds Objects of package
// encoded, whatever is read into.
func (s *Store) decorate(
	config *storagebackend.ConfigForResource,
	resourcePrefix string,
	keyFunc func(runtime.Object) (string, error),
	_, _ func() runtime.Object,
	getAttrs storage.AttrFunc,
	triggers storage.IndexerFuncs,
	indexers *cache.Indexers,
) (storage.Interface, factory.DestroyFunc, error) {
	watchCache, err := cacher.NewCacherFromConfig(cacher.Config{
		Storage:             backend{s},
		Versioner:           storage.APIObjectVersioner{},
		GroupResource:       config.GroupResource,
		EventsHistoryWindow: config.EventsHistoryWindow,
		ResourcePrefix:      resourcePrefix,
		KeyFunc:             keyFunc,
		GetAttrsFunc: func(object runtime.Object) (labels.Set, fields.Set, error) {
			return getAttrs(encoded.Unwrap(object))
		},
		IndexerFuncs: triggers,
		Indexers:     indexers,
		NewFunc:      func() runtime.Object { return encoded.New(s.config.NewFunc()) },
		NewListFunc:  func() runtime.Object { return encoded.NewList(s.config.NewListFunc) },
		Codec:        config.Codec,
		Clock:        s.config.Clock,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("create watch cache for %s: %w", s.config.Resource, err)
	}
	delegator := cacher.NewCacheDelegator(watchCache, backend{s})
	destroy := sync.OnceFunc(func() {
		delegator.Stop()
		watchCache.Stop()
	})
	s.mu.Lock()
	s.closers = append(s.closers, destroy)
	s.mu.Unlock()
	return &guard{Interface: delegator, store: s, cache: watchCache}, destroy, nil
}

// SupportWatchProgress tells the watch caches of this process that storage
// supports watch progress requests. Without it they reject streaming lists and
// do not serve consistent reads. Otherwise only an etcd client would enable it,
// and the process may have none. The stores of this package support it, and so
// does etcd since 3.4.31 and 3.5.13: a process with an older etcd must not call
// this function.
//
// It changes a global variable of k8s.io/apiserver. Call it before any storage is
// created; only the first call has an effect.
func SupportWatchProgress() { supportWatchProgress() }

var supportWatchProgress = sync.OnceFunc(func() {
	feature.DefaultFeatureSupportChecker = watchProgress{feature.DefaultFeatureSupportChecker}
})

// watchProgress reports support for watch progress requests and delegates
// everything else.
type watchProgress struct {
	feature.FeatureSupportChecker
}

func (w watchProgress) Supports(asked storage.Feature) bool {
	return asked == storage.RequestWatchProgress || w.FeatureSupportChecker.Supports(asked)
}
