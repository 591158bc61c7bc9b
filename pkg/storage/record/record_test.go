// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcdtest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record/recordtest"
)

var etcd *clientv3.Client

func TestMain(m *testing.M) { etcdtest.Main(m, &etcd) }

// newStore returns a store in etcd. Each test has a prefix of its own.
func newStore(t *testing.T) record.Store {
	t.Helper()
	config := storagebackend.NewDefaultConfig("/"+strings.ReplaceAll(t.Name(), " ", "-"), nil)
	config.Transport.ServerList = etcd.Endpoints()
	store, destroy, err := record.New(generic.RESTOptions{
		StorageConfig: config.ForResource(record.Resource("documents")), Decorator: generic.UndecoratedStorage, ResourcePrefix: "/documents",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		destroy()
		if _, err := etcd.Delete(context.Background(), config.Prefix, clientv3.WithPrefix()); err != nil {
			t.Error(err)
		}
	})
	return store
}

func TestStoreInEtcd(t *testing.T) { recordtest.TestStore(t, newStore) }

func TestInvalidNamesAreRejected(t *testing.T) {
	store := newStore(t)
	for _, name := range []string{"", "a/b", "..", "A"} {
		if _, _, err := store.Update(t.Context(), name, func([]byte) ([]byte, error) { return []byte("1"), nil }); err == nil {
			t.Errorf("a document with the name %q was stored", name)
		}
	}
}

func TestWatchOfAnInvalidVersionReturnsAnError(t *testing.T) {
	if err := newStore(t).Watch(t.Context(), "invalid", func(string, []byte, string) {}); err == nil {
		t.Error("got nil")
	}
}

// contexts records the contexts of storage calls.
type contexts struct {
	storage.Interface
	deadlines map[string]bool
}

func (c *contexts) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	_, c.deadlines["GetList"] = ctx.Deadline()
	return c.Interface.GetList(ctx, key, opts, list)
}

func (c *contexts) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object,
) error {
	_, c.deadlines["GuaranteedUpdate"] = ctx.Deadline()
	return c.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, tryUpdate, cached)
}

func (c *contexts) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions,
) error {
	_, c.deadlines["Delete"] = ctx.Deadline()
	return c.Interface.Delete(ctx, key, out, preconditions, validate, cached, opts)
}

func TestCallsHaveADeadline(t *testing.T) {
	config := storagebackend.NewDefaultConfig("/"+t.Name(), nil)
	config.Transport.ServerList = etcd.Endpoints()
	observed := &contexts{deadlines: map[string]bool{}}
	store, destroy, err := record.New(generic.RESTOptions{
		StorageConfig: config.ForResource(record.Resource("documents")), ResourcePrefix: "/documents",
		Decorator: func(config *storagebackend.ConfigForResource, prefix string, _ func(runtime.Object) (string, error),
			newFunc, newListFunc func() runtime.Object, _ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers,
		) (storage.Interface, factory.DestroyFunc, error) {
			stored, destroy, err := generic.NewRawStorage(config, newFunc, newListFunc, prefix)
			observed.Interface = stored
			return observed, destroy, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer destroy()
	for _, data := range [][]byte{{1}, nil} {
		if _, _, err := store.Update(t.Context(), "a", func([]byte) ([]byte, error) { return data, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := store.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"GetList", "GuaranteedUpdate", "Delete"} {
		if !observed.deadlines[method] {
			t.Errorf("%s has no deadline", method)
		}
	}
}
