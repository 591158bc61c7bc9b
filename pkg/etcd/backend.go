// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/gate"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
)

// markerKey is the key of the storage marker below the prefix.
const markerKey = "storage.mcs-apiserver.io/marker"

// Backend is storage in etcd, below a prefix.
type Backend struct {
	client *clientv3.Client
	prefix string
	gate   *gate.Gate

	mu sync.Mutex
	// opened is the marker of the storage that was opened. It is nil if the storage has none,
	// as that of earlier versions, from which objects are moved.
	opened *marker.Marker
	// lost is set when the storage is not the one that was opened any more.
	lost bool
	// replaced is closed when other storage, or restored storage, could be opened.
	replaced chan struct{}
	replace  func()
}

// NewBackend returns storage that must not be used until it was opened.
func NewBackend(client *clientv3.Client, prefix string) *Backend {
	replaced := make(chan struct{})
	return &Backend{
		client: client, prefix: strings.TrimSuffix(prefix, "/") + "/", gate: gate.New(),
		replaced: replaced, replace: sync.OnceFunc(func() { close(replaced) }),
	}
}

// Close closes the client.
func (b *Backend) Close() { _ = b.client.Close() }

// Gate is closed until the storage was opened.
func (b *Backend) Gate() *gate.Gate { return b.gate }

// Prepare does nothing: the client connects when it is used.
func (b *Backend) Prepare(context.Context) error { return nil }

// Marker is where the storage keeps its marker.
func (b *Backend) Marker() marker.Place {
	return marker.Etcd{Client: b.client, Key: path.Join(b.prefix, markerKey)}
}

// Empty reports whether the storage holds no objects.
func (b *Backend) Empty(ctx context.Context) (bool, error) {
	response, err := b.client.Get(ctx, b.prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return false, err
	}
	return response.Count == 0, nil
}

// Open opens the storage after its marker was verified. It does not after a loss: the
// watch caches hold objects of another storage or of none, and cannot tell that from the
// revisions, which may be lower now. So the server has to be restarted.
func (b *Backend) Open(ctx context.Context) error {
	held, err := b.Marker().Get(ctx)
	if err != nil {
		return fmt.Errorf("read the storage marker: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost {
		b.replace()
		return errors.New("storage was lost while mcs-apiserver was running, and can be used again: mcs-apiserver is being restarted")
	}
	b.opened = held
	b.gate.Open()
	return nil
}

// Replaced is closed when storage can be used that must not be opened before a restart.
func (b *Backend) Replaced() <-chan struct{} { return b.replaced }

// Confirm returns nil if the storage is still the one that was opened, according to a read
// that started after the call. Otherwise it closes the gate.
func (b *Backend) Confirm(ctx context.Context) error {
	if err := b.gate.Usable(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	held, err := b.Marker().Get(ctx)
	if err != nil {
		return gate.Unavailable("storage is unavailable: read the storage marker: " + err.Error())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened == nil || held != nil && *held == *b.opened {
		return nil
	}
	b.lost = true
	found := "its marker is missing"
	if held != nil {
		found = "etcd has the marker of storage " + held.StorageID
	}
	err = fmt.Errorf("storage %s was lost: %s", b.opened.StorageID, found)
	b.gate.Close(err)
	return b.gate.Usable()
}

// WithoutWatchCache returns the same storage without a watch cache.
func WithoutWatchCache(getter generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return uncachedOptions{getter}
}

type uncachedOptions struct{ generic.RESTOptionsGetter }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o uncachedOptions) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := o.RESTOptionsGetter.GetRESTOptions(resource, example)
	options.Decorator = generic.UndecoratedStorage
	return options, err
}
