// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"bytes"
	"context"
	"fmt"
	"path"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record"
)

// Collection is everything of one kind in a storage, in encoded form and by key.
type Collection interface {
	List(ctx context.Context) (map[string][]byte, error)
	// Put creates or replaces an item.
	Put(ctx context.Context, key string, data []byte) error
	Delete(ctx context.Context, key string) error
}

var (
	_ Collection = Objects{}
	_ Collection = Records{}
)

// Objects are API objects of one resource.
type Objects struct {
	Storage storage.Interface
	// Prefix is the key prefix of the resource.
	Prefix  string
	Codec   runtime.Codec
	New     func() runtime.Object
	NewList func() runtime.Object
}

// List implements Collection.
func (o Objects) List(ctx context.Context) (map[string][]byte, error) {
	list := o.NewList()
	if err := o.Storage.GetList(ctx, o.Prefix+"/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list); err != nil {
		return nil, err
	}
	items := map[string][]byte{}
	return items, meta.EachListItem(list, func(object runtime.Object) error {
		accessor, err := meta.Accessor(object)
		if err != nil {
			return err
		}
		accessor.SetResourceVersion("") // it is different in every storage
		key := path.Join(o.Prefix, accessor.GetNamespace(), accessor.GetName())
		if items[key], err = runtime.Encode(o.Codec, object); err != nil {
			return fmt.Errorf("encode %s: %w", key, err)
		}
		return nil
	})
}

// Put implements Collection. The object is stored as it is: no strategy changes its
// UID, times, generation, managed fields or finalizers.
func (o Objects) Put(ctx context.Context, key string, data []byte) error {
	object, err := runtime.Decode(o.Codec, data)
	if err != nil {
		return err
	}
	return o.Storage.GuaranteedUpdate(ctx, key, o.New(), true, nil, func(runtime.Object, storage.ResponseMeta) (runtime.Object, *uint64, error) {
		return object, nil, nil
	}, nil)
}

// Delete implements Collection.
func (o Objects) Delete(ctx context.Context, key string) error {
	return o.Storage.Delete(ctx, key, o.New(), nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
}

// Records are records of one kind.
type Records struct{ Store record.Store }

// List implements Collection.
func (r Records) List(ctx context.Context) (map[string][]byte, error) {
	documents, _, err := r.Store.List(ctx)
	return documents, err
}

// Put implements Collection.
func (r Records) Put(ctx context.Context, key string, data []byte) error {
	_, _, err := r.Store.Update(ctx, key, func([]byte) ([]byte, error) { return data, nil })
	return err
}

// Delete implements Collection.
func (r Records) Delete(ctx context.Context, key string) error {
	_, _, err := r.Store.Update(ctx, key, func([]byte) ([]byte, error) { return nil, nil })
	return err
}

// difference returns the keys of items to put into and to delete from the target, so
// that it holds the same as the source.
func difference(source, target map[string][]byte) (put, remove []string) {
	for key, data := range source {
		if held, ok := target[key]; !ok || !bytes.Equal(held, data) {
			put = append(put, key)
		}
	}
	for key := range target {
		if _, ok := source[key]; !ok {
			remove = append(remove, key)
		}
	}
	return put, remove
}
