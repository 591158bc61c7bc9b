// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// confirmTimeout bounds one read of the namespace.
const confirmTimeout = 5 * time.Second

// NamespaceGuard decides whether the storage namespace can be used, and whether
// the absence of an object means that the object was deleted.
//
// When the namespace itself is deleted, its ConfigMaps vanish with genuine
// DELETED events. Deletion of a namespace is final, and its content is deleted
// after its deletionTimestamp is set: an absence that was observed before the
// namespace was read without a deletionTimestamp has another cause.
type NamespaceGuard struct {
	name string
	get  func(ctx context.Context, name string) (*corev1.Namespace, error)

	mu sync.Mutex
	// uid is the UID of the namespace that was opened; empty before that.
	uid types.UID
	// unusable is why the storage cannot be used, or nil.
	unusable error
	// running is in progress, and next starts when running has finished. A caller
	// that comes while a read is in progress needs the next one: the response to
	// the read in progress may be older than the caller's observation.
	running, next *confirmation
}

type confirmation struct {
	done chan struct{}
	err  error
}

// NewNamespaceGuard returns the guard of a namespace that cannot be used until
// Open is called. get must read the namespace from the kube-apiserver, not from
// a cache.
func NewNamespaceGuard(name string, get func(ctx context.Context, name string) (*corev1.Namespace, error)) *NamespaceGuard {
	g := &NamespaceGuard{name: name, get: get}
	g.Wait(errors.New("storage has not been opened yet"))
	return g
}

// Open makes the storage usable, in the namespace with this UID.
func (g *NamespaceGuard) Open(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.uid, g.unusable = uid, nil
}

// Wait records why the storage has not been opened yet.
func (g *NamespaceGuard) Wait(reason error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.uid == "" {
		g.unusable = unavailable(reason)
	}
}

// Usable returns nil if the storage can be used, and otherwise a 503 with the reason.
func (g *NamespaceGuard) Usable() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unusable
}

// Confirm returns nil if the namespace is alive according to a read that
// started after the call. Concurrent calls share a read.
func (g *NamespaceGuard) Confirm(ctx context.Context) error {
	c := g.join()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *NamespaceGuard) join() *confirmation {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == nil {
		g.running = &confirmation{done: make(chan struct{})}
		go g.confirm(g.running)
		return g.running
	}
	if g.next == nil {
		g.next = &confirmation{done: make(chan struct{})}
	}
	return g.next
}

// confirm reads the namespace as long as somebody waits for it.
func (g *NamespaceGuard) confirm(c *confirmation) {
	for c != nil {
		ctx, cancel := context.WithTimeout(context.Background(), confirmTimeout)
		namespace, err := g.get(ctx, g.name)
		cancel()

		g.mu.Lock()
		final, err := evaluate(g.name, g.uid, namespace, err)
		if final {
			g.unusable = err
		}
		c.err = err
		close(c.done)
		c, g.running, g.next = g.next, g.next, nil
		g.mu.Unlock()
	}
}

// evaluate returns an error unless the namespace is alive, and whether the error
// is final: a namespace that is deleted does not come back.
func evaluate(name string, uid types.UID, namespace *corev1.Namespace, err error) (final bool, _ error) {
	const remedy = "restore its ConfigMaps from a backup, or accept the loss by restarting mcs-apiserver with --accept-storage"
	lost := func(what string) error {
		return unavailable(fmt.Errorf("storage namespace %q %s: %s", name, what, remedy))
	}
	switch {
	case apierrors.IsNotFound(err):
		return true, lost("was deleted")
	case err != nil:
		return false, unavailable(fmt.Errorf("read storage namespace %q: %w", name, err))
	case namespace.UID != uid:
		return true, lost("was deleted and created again")
	case namespace.DeletionTimestamp != nil:
		return true, lost("is being deleted")
	}
	return false, nil
}
