// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/gate"
)

const (
	// confirmTimeout bounds one read of the namespace.
	confirmTimeout = 5 * time.Second
	// maxShared is how long observations are compared by version: versions decrease when the host is
	// restored from a backup, which takes longer.
	maxShared = time.Second

	restoreRemedy = "restore its ConfigMaps from a backup, or accept the loss by restarting mcs-apiserver with --accept-storage"
	// waitRemedy comes before restoreRemedy while nothing can be restored.
	waitRemedy = "wait until it is deleted and created again, then "
)

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

	gate *gate.Gate

	mu sync.Mutex
	// opened is the namespace that was opened last.
	opened opened
	// running is in progress, and next starts when running has finished. A caller
	// that comes while a read is in progress needs the next one, unless somebody else had
	// observed as much before: the response to the read in progress may be older than the
	// caller's observation. last is the last one, if the namespace was alive.
	running, next, last *confirmation
	// newest is the newest version at which an absence was observed, and when that was.
	newest     uint64
	observedAt time.Time
}

// opened is a namespace that was opened.
type opened struct {
	uid types.UID
	// version is a resource version at which the namespace was complete. Changes
	// before it may belong to an earlier namespace of the same name.
	version uint64
}

type confirmation struct {
	done chan struct{}
	// observed is the newest version that was observed before the read started.
	observed uint64
	started  time.Time
	// uid is the UID of the namespace that was read.
	uid types.UID
	err error
}

// NewNamespaceGuard returns the guard of a namespace that cannot be used until
// Open is called. get must read the namespace from the kube-apiserver, not from
// a cache.
func NewNamespaceGuard(name string, get func(ctx context.Context, name string) (*corev1.Namespace, error)) *NamespaceGuard {
	return &NamespaceGuard{name: name, get: get, gate: gate.New()}
}

// Gate is closed while the storage cannot be used.
func (g *NamespaceGuard) Gate() *gate.Gate { return g.gate }

// Open makes the storage usable, in the namespace with this UID. version is a
// resource version at which the namespace was complete: watches cannot start
// before it, because they would report the deletion of an earlier namespace of
// the same name.
func (g *NamespaceGuard) Open(uid types.UID, version uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = opened{uid, version}
	g.gate.Open()
}

// usable returns the namespace to use, or a 503 with the reason why there is none.
func (g *NamespaceGuard) usable() (opened, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened, g.gate.Usable()
}

// confirm returns nil if the namespace is alive according to a read that started after an
// absence was observed: that at a version or, if it is zero, the one before the call. All who
// observe an absence at the same version, or an earlier one, share a read: a deletion is reported
// to all who watch.
func (g *NamespaceGuard) confirm(ctx context.Context, uid types.UID, observed uint64) error {
	c := g.join(observed)
	select {
	case <-c.done:
		if c.err == nil && c.uid != uid {
			return gate.Unavailable(fmt.Sprintf("storage namespace %q was deleted and created again: retry", g.name))
		}
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Confirm closes the gate if the namespace is not alive.
func (g *NamespaceGuard) Confirm(ctx context.Context) error {
	opened, err := g.usable()
	if err != nil {
		return err
	}
	return g.confirm(ctx, opened.uid, 0)
}

func (g *NamespaceGuard) join(observed uint64) *confirmation {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for _, c := range []*confirmation{g.last, g.running} {
		if c.follows(observed, now) {
			return c
		}
	}
	if observed > 0 && (observed > g.newest || now.Sub(g.observedAt) > maxShared) {
		g.newest, g.observedAt = observed, now
	}
	if g.running == nil {
		g.running = &confirmation{done: make(chan struct{})}
		g.beginLocked(g.running)
		go g.read(g.running)
		return g.running
	}
	if g.next == nil {
		g.next = &confirmation{done: make(chan struct{})}
	}
	return g.next
}

// follows reports whether a read started after an absence was observed at a version.
func (c *confirmation) follows(observed uint64, now time.Time) bool {
	return c != nil && observed > 0 && observed <= c.observed && now.Sub(c.started) <= maxShared
}

// beginLocked records what was observed before a read, which starts now.
func (g *NamespaceGuard) beginLocked(c *confirmation) {
	c.started = time.Now()
	if c.started.Sub(g.observedAt) <= maxShared {
		c.observed = g.newest
	}
}

// read reads the namespace as long as somebody waits for it.
func (g *NamespaceGuard) read(c *confirmation) {
	for c != nil {
		ctx, cancel := context.WithTimeout(context.Background(), confirmTimeout)
		namespace, err := g.get(ctx, g.name)
		cancel()

		g.mu.Lock()
		final, err := evaluate(g.name, g.opened.uid, namespace, err)
		if final {
			g.gate.Close(err)
		}
		c.uid, g.last = g.opened.uid, c
		if err != nil {
			c.err, g.last = unavailable(err), nil
		}
		close(c.done)
		c, g.running, g.next = g.next, g.next, nil
		if c != nil {
			g.beginLocked(c)
		}
		g.mu.Unlock()
	}
}

// evaluate returns an error unless the namespace is alive, and whether the error
// is final: a namespace that is deleted does not come back.
func evaluate(name string, uid types.UID, namespace *corev1.Namespace, err error) (final bool, _ error) {
	lost := func(what, remedy string) error {
		return fmt.Errorf("storage namespace %q %s: %s", name, what, remedy)
	}
	switch {
	case apierrors.IsNotFound(err):
		return true, lost("was deleted", restoreRemedy)
	case err != nil:
		return false, fmt.Errorf("read storage namespace %q: %w", name, err)
	case namespace.UID != uid:
		return true, lost("was deleted and created again", restoreRemedy)
	case namespace.DeletionTimestamp != nil:
		return true, lost("is being deleted", waitRemedy+restoreRemedy)
	}
	return false, nil
}
