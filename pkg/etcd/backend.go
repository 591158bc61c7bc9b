// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"path"
	"strings"

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
}

// NewBackend returns storage that must not be used until it was opened.
func NewBackend(client *clientv3.Client, prefix string) *Backend {
	return &Backend{client: client, prefix: strings.TrimSuffix(prefix, "/") + "/", gate: gate.New()}
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

// Open opens the storage after its marker was verified.
func (b *Backend) Open(context.Context) error {
	b.gate.Open()
	return nil
}

// Confirm does nothing: open storage stays open.
func (b *Backend) Confirm(context.Context) error { return nil }

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
