// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache" // only to name a parameter of generic.StorageDecorator
)

// RESTOptions lets a genericregistry.Store read this store through a watch
// cache of its own; no etcd is needed. The codec must know the type that
// NewFunc returns: the watch cache insists, but nothing is encoded with it.
// The watch cache runs until the storage is destroyed or Run ends. Serve only
// the reading half of the genericregistry.Store: it cannot be written, and has
// no storage version to advertise.
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
		return generic.RESTOptions{}, fmt.Errorf("the virtual resource is %s and not %s", o.store.config.Resource, resource)
	}
	config := storagebackend.Config{Codec: o.codec, EventsHistoryWindow: cacher.DefaultEventFreshDuration}
	return generic.RESTOptions{
		StorageConfig:  config.ForResource(resource),
		Decorator:      o.store.decorate,
		ResourcePrefix: o.store.prefix,
	}, nil
}

// decorate implements generic.StorageDecorator.
func (s *Store) decorate(
	config *storagebackend.ConfigForResource,
	resourcePrefix string,
	keyFunc func(runtime.Object) (string, error),
	newFunc, newListFunc func() runtime.Object,
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
		GetAttrsFunc:        getAttrs,
		IndexerFuncs:        triggers,
		Indexers:            indexers,
		NewFunc:             newFunc,
		NewListFunc:         newListFunc,
		Codec:               config.Codec,
		Clock:               s.config.Clock,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("make a watch cache for %s: %w", s.config.Resource, err)
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

// SupportWatchProgress tells the watch caches of this process that storage can
// report the progress of a watch. Without it they refuse streaming lists and
// do not serve consistent reads. Nobody but an etcd client says so otherwise,
// and there may be none. It is true of the stores of this package, and of etcd
// from 3.4.31 and 3.5.13 on: a process with an older etcd must not call it.
//
// It changes a global variable of k8s.io/apiserver. Call it before any storage
// is made; only the first call does anything.
func SupportWatchProgress() { supportWatchProgress() }

var supportWatchProgress = sync.OnceFunc(func() {
	feature.DefaultFeatureSupportChecker = watchProgress{feature.DefaultFeatureSupportChecker}
})

// watchProgress leaves the checking of etcd clients as it is and only knows
// the answer.
type watchProgress struct {
	feature.FeatureSupportChecker
}

func (w watchProgress) Supports(asked storage.Feature) bool {
	return asked == storage.RequestWatchProgress || w.FeatureSupportChecker.Supports(asked)
}
