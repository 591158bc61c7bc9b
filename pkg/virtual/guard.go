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
)

// cacheTimeout is how long a read waits for the watch cache, which takes some
// milliseconds to see that the store is synced.
const cacheTimeout = time.Second

// guard stands in front of the watch cache and refuses what the cache would
// answer wrongly: any version that this store did not issue, or so long ago
// that it does not remember, and everything before the store is synced.
type guard struct {
	storage.Interface // the watch cache and the store behind it
	store             *Store
	cache             *cacher.Cacher
}

// Get implements storage.Interface.
func (g *guard) Get(ctx context.Context, key string, opts storage.GetOptions, into runtime.Object) error {
	if err := g.ready(ctx); err != nil {
		return err
	}
	known, err := g.knows(opts.ResourceVersion)
	if err != nil {
		return err
	}
	if !known {
		return expired(opts.ResourceVersion)
	}
	return g.Interface.Get(ctx, key, opts, into)
}

// GetList implements storage.Interface. A limit is ignored, which the API
// allows: a continue token would fail at any other replica.
func (g *guard) GetList(ctx context.Context, key string, opts storage.ListOptions, into runtime.Object) error {
	if err := g.ready(ctx); err != nil {
		return err
	}
	if opts.Predicate.Continue != "" {
		return apierrors.NewResourceExpired("lists are never continued here, and this token is not from here: list again without it")
	}
	known, err := g.knows(opts.ResourceVersion)
	if err != nil {
		return err
	}
	if !known {
		return expired(opts.ResourceVersion)
	}
	key, opts = unlimited(key, opts)
	return g.Interface.GetList(ctx, key, opts, into)
}

// Watch implements storage.Interface. A version that is not known is answered
// inside the watch, as the cache itself does with one that is too old: that is
// what every client is prepared for.
func (g *guard) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if err := g.ready(ctx); err != nil {
		return nil, err
	}
	known, err := g.knows(opts.ResourceVersion)
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

// ready refuses a read that could not be answered truly.
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

// knows says whether a read may start at the version. Both no version and the
// version 0 ask for whatever there is.
func (g *guard) knows(resourceVersion string) (bool, error) {
	version, err := g.Versioner().ParseResourceVersion(resourceVersion)
	if err != nil {
		return false, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q: it must be one that was read here", resourceVersion))
	}
	return version == 0 || g.store.knows(version), nil
}

// unlimited takes the limit from a list and keeps what else it means.
func unlimited(key string, opts storage.ListOptions) (string, storage.ListOptions) {
	versioned := opts.ResourceVersion != "" && opts.ResourceVersion != "0"
	if opts.Recursive && opts.Predicate.Limit > 0 && versioned && opts.ResourceVersionMatch == "" {
		// By tradition a limit without a match asks for exactly the version.
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	}
	opts.Predicate.Limit = 0
	name, single := opts.Predicate.MatchesSingle()
	if single && !opts.Recursive && opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact && path.Base(key) == name {
		// The cache has old versions of a directory only, not of a key. The
		// predicate, from which the key was made, still selects the object.
		key, opts.Recursive = path.Dir(key), true
	}
	return key, opts
}
