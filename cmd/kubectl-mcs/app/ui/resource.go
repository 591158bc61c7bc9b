// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/truncate"
)

// Indexes of objects: by namespace and service, and by the cluster that exports.
const (
	byService = "service"
	byCluster = "cluster"
)

// resource watches all objects of a kind in one cluster, and knows why it cannot.
type resource struct {
	name     string
	informer cache.SharedIndexInformer

	mu sync.Mutex
	// failures are why the last request failed, by verb: who may list may not be allowed to watch.
	failures map[string]string
	failure  string
	since    time.Time
}

// unreadable is something that cannot be read.
type unreadable struct {
	Resource string      `json:"resource"`
	Reason   string      `json:"reason"`
	Since    metav1.Time `json:"since"`
	// Outdated is true if it could be read before: what was read is shown.
	Outdated bool `json:"outdated,omitempty"`
}

// lister lists and watches objects of a kind.
type lister[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// newResource returns a resource that calls failed when it can be read no longer, or again.
func newResource[L runtime.Object](in *cluster.Cluster, name string, object runtime.Object, from lister[L], indexers cache.Indexers, failed func()) *resource {
	r := &resource{name: name}
	// Informers retry without telling why.
	note := func(verb string, err error) {
		if r.note(in.Context, verb, err) {
			failed()
		}
	}
	listWatch := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := from.List(ctx, options)
			note("list", err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			watching, err := from.Watch(ctx, options)
			note("watch", err)
			return watching, err
		},
	}, in.MCS)
	r.informer = cache.NewSharedIndexInformer(listWatch, object, 0, indexers)
	// These fail only if the informer has started.
	_ = r.informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	_ = r.informer.SetTransform(withoutManagedFields)
	return r
}

// note remembers why the last request failed, and reports whether that is new. Requests that end because
// the command does have not failed.
func (r *resource) note(in, verb string, err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	failure := ""
	if err != nil {
		failure = truncate.Characters(cluster.Diagnose(in, err, cluster.MCSUserAdvice).Error(), maxMessage)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failures == nil {
		r.failures = map[string]string{}
	}
	r.failures[verb] = failure
	if verb == "watch" && failure == "" {
		r.failures["list"] = "" // a watch begins after a list, or is one
	}
	failure = cmp.Or(r.failures["list"], r.failures["watch"])
	if (r.failure == "") == (failure == "") {
		changed := r.failure != failure
		r.failure = failure
		return changed
	}
	r.failure, r.since = failure, time.Now()
	return true
}

// failed returns why the resource cannot be read, nil if it can.
func (r *resource) failed() *unreadable {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == "" {
		return nil
	}
	return &unreadable{Resource: r.name, Reason: r.failure, Since: metav1.NewTime(r.since), Outdated: r.informer != nil && r.synced()}
}

// synced reports whether everything was read at least once.
func (r *resource) synced() bool { return r.informer.HasSynced() }

// handle calls a function for every change. Old or current are nil for objects that are new or deleted.
func handle[T any](r *resource, changed func(old, current *T)) {
	typed := func(object any) *T {
		if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		found, _ := object.(*T)
		return found
	}
	_, _ = r.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only if the informer has stopped
		AddFunc: func(object any) { changed(nil, typed(object)) },
		UpdateFunc: func(old, current any) {
			if versionOf(old) != versionOf(current) || versionOf(current) == "" {
				changed(typed(old), typed(current))
			}
		},
		DeleteFunc: func(object any) { changed(typed(object), nil) },
	})
}

// versionOf returns the resource version of an object. It is the same if an object was listed again.
func versionOf(object any) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return accessor.GetResourceVersion()
}

// withoutManagedFields saves memory.
func withoutManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// get returns an object from the cache, nil if there is none.
func get[T any](r *resource, key string) *T {
	object, ok, err := r.informer.GetStore().GetByKey(key)
	if err != nil || !ok {
		return nil
	}
	found, _ := object.(*T)
	return found
}

// indexed returns all objects with a key in an index.
func indexed[T any](r *resource, index, key string) []T {
	objects, err := r.informer.GetIndexer().ByIndex(index, key)
	if err != nil {
		return nil
	}
	var found []T
	for _, object := range objects {
		if one, ok := object.(*T); ok {
			found = append(found, *one)
		}
	}
	return found
}
