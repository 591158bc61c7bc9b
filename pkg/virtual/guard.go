// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"context"
	"fmt"
	"path"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

// cacheTimeout is how long a read waits for the watch cache, which takes a few
// milliseconds to notice that the store is synced.
const cacheTimeout = time.Second

// guard wraps the watch cache and rejects requests that the cache would answer
// wrongly: versions that this store did not issue or no longer remembers, and
// all reads before the store is synced.
type guard struct {
	storage.Interface // the watch cache and the store behind it
	store             *Store
	cache             *cacher.Cacher
}

// Get implements storage.Interface. It reads into an Object with its encodings or, like
// GetList, into the hub type.
func (g *guard) Get(ctx context.Context, key string, opts storage.GetOptions, into runtime.Object) error {
	if err := g.ready(ctx); err != nil {
		return err
	}
	known, err := g.accepts(opts.ResourceVersion)
	if err != nil {
		return err
	}
	if !known {
		return expired(opts.ResourceVersion)
	}
	if _, ok := into.(*encoded.Object); ok {
		return g.Interface.Get(ctx, key, opts, into)
	}
	object := &encoded.Object{}
	if err := g.Interface.Get(ctx, key, opts, object); err != nil {
		return err
	}
	return object.UnwrapInto(into)
}

// GetList implements storage.Interface. A limit is ignored, which the API
// allows: a continue token would fail at any other replica.
func (g *guard) GetList(ctx context.Context, key string, opts storage.ListOptions, into runtime.Object) error {
	if err := g.ready(ctx); err != nil {
		return err
	}
	if opts.Predicate.Continue != "" {
		return apierrors.NewResourceExpired("unknown continue token: lists of this resource are never paginated; list again without it")
	}
	known, err := g.accepts(opts.ResourceVersion)
	if err != nil {
		return err
	}
	if !known {
		return expired(opts.ResourceVersion)
	}
	key, opts = unlimited(key, opts)
	if _, ok := into.(*encoded.List); ok {
		return g.Interface.GetList(ctx, key, opts, into)
	}
	list := encoded.NewList(func() runtime.Object { return into })
	if err := g.Interface.GetList(ctx, key, opts, list); err != nil {
		return err
	}
	list.Unwrap()
	return nil
}

// Watch implements storage.Interface. An unknown version results in an ERROR
// event, as the watch cache does for a version that is too old: all clients
// handle that.
func (g *guard) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if err := g.ready(ctx); err != nil {
		return nil, err
	}
	known, err := g.accepts(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if !known {
		status := expired(opts.ResourceVersion).Status()
		events := make(chan watch.Event, 1)
		events <- watch.Event{Type: watch.Error, Object: &status}
		close(events)
		return watch.NewProxyWatcher(events), nil
	}
	return g.Interface.Watch(ctx, key, opts)
}

// ReadinessCheck implements storage.Interface.
func (g *guard) ReadinessCheck() error {
	if err := (backend{g.store}).ReadinessCheck(); err != nil {
		return err
	}
	return g.Interface.ReadinessCheck()
}

// ready returns an error if a read cannot be answered correctly yet.
func (g *guard) ready(ctx context.Context) error {
	g.store.mu.RLock()
	err := g.store.readable()
	g.store.mu.RUnlock()
	if err != nil || g.cache.Ready() {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cacheTimeout)
	defer cancel()
	if err := g.cache.Wait(ctx); err != nil {
		return g.store.unavailable("is not in the watch cache yet")
	}
	return nil
}

// accepts reports whether a read may use the version. Both no version and
// version 0 mean any.
func (g *guard) accepts(resourceVersion string) (bool, error) {
	version, err := g.Versioner().ParseResourceVersion(resourceVersion)
	if err != nil {
		return false, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q: must be a version that was returned by this server", resourceVersion))
	}
	return version == 0 || g.store.issuedRecently(version), nil
}

// unlimited removes the limit from a list and keeps its other effects.
func unlimited(key string, opts storage.ListOptions) (string, storage.ListOptions) {
	versioned := opts.ResourceVersion != "" && opts.ResourceVersion != "0"
	if opts.Recursive && opts.Predicate.Limit > 0 && versioned && opts.ResourceVersionMatch == "" {
		// By convention a limit without a match requests the exact version.
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	}
	opts.Predicate.Limit = 0
	name, single := opts.Predicate.MatchesSingle()
	if single && !opts.Recursive && opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact && path.Base(key) == name {
		// The watch cache has old versions of a directory only, not of a key. The
		// predicate, which the key was derived from, still selects the object.
		key, opts.Recursive = path.Dir(key), true
	}
	return key, opts
}
