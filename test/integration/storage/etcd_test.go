// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/etcd"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// transformPrefix is put in front of all stored data.
const transformPrefix = "test!"

// prefixes numbers the key prefixes of tests.
var prefixes atomic.Int64

// etcdOptions are the options of storage in an etcd, as mcs-apiserver uses it.
type etcdOptions struct{ config storagebackend.Config }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (o etcdOptions) GetRESTOptions(resource schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{StorageConfig: o.config.ForResource(resource), Decorator: generic.UndecoratedStorage, ResourcePrefix: "/" + resource.Resource}, nil
}

// newPrefix returns a key prefix that no other test uses.
func newPrefix() string { return fmt.Sprintf("/test-%d", prefixes.Add(1)) }

// restOptions returns the options of storage in an etcd, below a prefix.
func restOptions(t *testing.T, server, prefix string, resource schema.GroupResource) generic.RESTOptions {
	t.Helper()
	config := storagebackend.NewDefaultConfig(prefix, newCodec())
	config.Transport.ServerList = []string{server}
	options, err := etcd.Limit(etcdOptions{*config}, etcd.ExternalSpace(config.Transport.ServerList)).GetRESTOptions(resource, nil)
	if err != nil {
		t.Fatal(err)
	}
	return options
}

// newEtcdSubject returns storage in an etcd.
func newEtcdSubject(t *testing.T, server string) *subject {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	prefix := newPrefix()
	options := guarded(t, client, prefix, restOptions(t, server, prefix, pods))
	// A test whose context expired during a write leaves it to etcd, which executes writes in order.
	if _, err := client.Put(t.Context(), options.StorageConfig.Prefix+"-barrier", ""); err != nil {
		t.Fatal(err)
	}
	transformer := newReplaceableTransformer()
	options.StorageConfig.Transformer = transformer
	tested, destroy, err := options.Decorator(options.StorageConfig, "/pods/", nil,
		func() runtime.Object { return &example.Pod{} }, func() runtime.Object { return &example.PodList{} }, podAttributes, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	t.Cleanup(func() { logWrites(t, client) })
	s := newSubject(t, tested, options.StorageConfig.Codec, nil, nil)
	s.validate = func(ctx context.Context, t *testing.T, key string) {
		validateKey(ctx, t, client, s.codec, options.StorageConfig.Prefix+key)
	}
	s.increaseVersion = func(ctx context.Context, t *testing.T) int64 {
		response, err := client.Put(ctx, options.StorageConfig.Prefix+"-other", "")
		if err != nil {
			t.Fatal(err)
		}
		return response.Header.Revision
	}
	s.compact = func(ctx context.Context, t *testing.T, version string) { compact(ctx, t, client, s, version) }
	s.transform = transformer.replace
	return s
}

// logWrites logs the last writes to an etcd if a test failed: some expect that nobody else writes.
func logWrites(t *testing.T, client *clientv3.Client) {
	if !t.Failed() {
		return
	}
	written, err := client.Get(context.Background(), "\x00", clientv3.WithFromKey(), clientv3.WithKeysOnly(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortDescend), clientv3.WithLimit(50))
	if err != nil {
		t.Log(err)
		return
	}
	for _, key := range written.Kvs {
		t.Logf("%d: %s, version %d", key.ModRevision, key.Key, key.Version)
	}
}

// unguarded are options of storage that may be lost.
type unguarded struct{ generic.RESTOptions }

// GetRESTOptions implements generic.RESTOptionsGetter.
func (u unguarded) GetRESTOptions(schema.GroupResource, runtime.Object) (generic.RESTOptions, error) {
	return u.RESTOptions, nil
}

// guarded returns the options of storage whose loss is found out, as mcs-apiserver uses it.
func guarded(t *testing.T, client *clientv3.Client, prefix string, options generic.RESTOptions) generic.RESTOptions {
	t.Helper()
	backend := etcd.NewBackend(client, prefix)
	expect.NoError(t, backend.Marker().Put(t.Context(), nil, marker.Marker{StorageID: "tested", ClusterUID: "here"}))
	expect.NoError(t, backend.Open(t.Context()))
	return expect.Must(backend.Guard(unguarded{options}).GetRESTOptions(pods, nil))(t)
}

func validateKey(ctx context.Context, t *testing.T, client *clientv3.Client, codec runtime.Codec, key string) {
	t.Helper()
	response, err := client.Get(ctx, key)
	if err != nil || len(response.Kvs) != 1 {
		t.Fatalf("no object at %s: %v", key, err)
	}
	decoded, err := runtime.Decode(codec, response.Kvs[0].Value[len(transformPrefix):])
	if err != nil {
		t.Fatal(err)
	}
	if pod := decoded.(*example.Pod); pod.ResourceVersion != "" {
		t.Errorf("stored object has resource version %s", pod.ResourceVersion)
	}
}

// compact compacts etcd and waits until the storage has observed it.
func compact(ctx context.Context, t *testing.T, client *clientv3.Client, s *subject, version string) {
	t.Helper()
	revision, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	// Unless it is the first compaction, the first attempt fails and returns what the second one needs.
	attempt, _, compacted, err := etcd3.Compact(ctx, client, 0, revision)
	if err == nil && compacted != revision {
		_, _, _, err = etcd3.Compact(ctx, client, attempt, revision)
	}
	if err != nil {
		t.Fatal(err)
	}
	expect.Eventually(t, "compaction", func(context.Context) error {
		if observed := s.CompactRevision(); observed != revision {
			return fmt.Errorf("observed up to %d, want %d", observed, revision)
		}
		return nil
	})
}

// replaceableTransformer is a transformer that a test can replace.
type replaceableTransformer struct {
	atomic.Pointer[value.Transformer]
	original *storagetesting.PrefixTransformer
}

func newReplaceableTransformer() *replaceableTransformer {
	r := &replaceableTransformer{original: storagetesting.NewPrefixTransformer([]byte(transformPrefix), false)}
	r.set(r.original)
	return r
}

func (r *replaceableTransformer) set(transformer value.Transformer) { r.Store(&transformer) }

func (r *replaceableTransformer) replace(modifier storagetesting.PrefixTransformerModifier) (undo func()) {
	modified := *r.original
	r.set(modifier(&modified))
	return func() { r.set(r.original) }
}

// TransformFromStorage implements value.Transformer.
func (r *replaceableTransformer) TransformFromStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, bool, error) {
	return (*r.Load()).TransformFromStorage(ctx, data, dataCtx)
}

// TransformToStorage implements value.Transformer.
func (r *replaceableTransformer) TransformToStorage(ctx context.Context, data []byte, dataCtx value.Context) ([]byte, error) {
	return (*r.Load()).TransformToStorage(ctx, data, dataCtx)
}
