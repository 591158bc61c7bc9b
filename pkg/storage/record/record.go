// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package record stores documents that are not API objects in the same storage
// as API objects.
package record

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
)

const (
	// MaxBytes is the maximum size of a document. Documents are encoded in base64
	// and must fit into a ConfigMap.
	MaxBytes = 700 << 10
	// timeout limits every call, and the start of a watch.
	timeout = 10 * time.Second
)

// Store keeps named documents of one kind. Names are DNS subdomains.
type Store interface {
	// List returns all documents, and the version to Watch from.
	List(ctx context.Context) (documents map[string][]byte, version string, err error)
	// Update replaces a document by what update returns for the current one, which
	// is nil if absent. Returning nil deletes the document, and returning the same
	// bytes writes nothing. update is called again after a conflict. Update returns
	// what is stored afterwards, and its version or the version of the deletion; the
	// version is empty if the document was absent and stays absent.
	Update(ctx context.Context, name string, update func(current []byte) ([]byte, error)) (stored []byte, version string, err error)
	// Watch calls observe for every change after a version, with nil data for a
	// deletion. It returns nil when the context ends, and an error when the watch
	// breaks: List again.
	Watch(ctx context.Context, from string, observe func(name string, data []byte, version string)) error
}

type store struct {
	storage storage.Interface
	prefix  string
}

var _ Store = &store{}

// Resource returns the resource under which documents of a kind are stored.
func Resource(kind string) schema.GroupResource {
	return schema.GroupResource{Group: GroupVersion.Group, Resource: kind}
}

// New returns a store in the storage that the options describe, which must not
// include a watch cache. The caller must call destroy when the store is no
// longer used.
func New(options generic.RESTOptions) (_ Store, destroy func(), err error) {
	config := *options.StorageConfig
	config.Codec, config.EncodeVersioner = newCodec(), GroupVersion
	prefix := "/" + strings.Trim(options.ResourcePrefix, "/")
	stored, destroy, err := options.Decorator(&config, prefix, func(obj runtime.Object) (string, error) {
		return path.Join(prefix, obj.(*Record).Name), nil
	}, func() runtime.Object { return &Record{} }, func() runtime.Object { return &RecordList{} }, noAttributes, nil, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("create storage of %s: %w", config.GroupResource, err)
	}
	return &store{storage: stored, prefix: prefix}, destroy, nil
}

// noAttributes is for objects that are never selected by label or field.
func noAttributes(runtime.Object) (labels.Set, fields.Set, error) { return nil, nil, nil }

// List implements Store.
func (s *store) List(ctx context.Context) (map[string][]byte, string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	list := &RecordList{}
	if err := s.storage.GetList(ctx, s.prefix+"/", storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list); err != nil {
		return nil, "", fmt.Errorf("list records in %s: %w", s.prefix, err)
	}
	documents := make(map[string][]byte, len(list.Items))
	for _, item := range list.Items {
		documents[item.Name] = item.document()
	}
	return documents, list.ResourceVersion, nil
}

// document returns data that is not nil, which would mean an absent document.
func (r *Record) document() []byte {
	if r.Data == nil {
		return []byte{}
	}
	return r.Data
}

// Update implements Store.
func (s *store) Update(ctx context.Context, name string, update func([]byte) ([]byte, error)) ([]byte, string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	stored, version, err := s.update(ctx, name, update)
	if err != nil {
		return nil, "", fmt.Errorf("update record %s in %s: %w", name, s.prefix, err)
	}
	return stored, version, nil
}

func (s *store) update(ctx context.Context, name string, update func([]byte) ([]byte, error)) ([]byte, string, error) {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return nil, "", fmt.Errorf("invalid name: %s", strings.Join(problems, ", "))
	}
	key := path.Join(s.prefix, name)
	for {
		change := &change{name: name, update: update}
		written := &Record{}
		err := s.storage.GuaranteedUpdate(ctx, key, written, true, nil, change.apply, nil)
		switch {
		case err == nil:
			return written.document(), written.ResourceVersion, nil
		case !errors.Is(err, errAbsent):
			return nil, "", err
		case change.existing == "":
			return nil, "", nil
		}
		err = s.storage.Delete(ctx, key, written, &storage.Preconditions{ResourceVersion: &change.existing}, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
		if err == nil {
			return nil, written.ResourceVersion, nil
		}
		if !storage.IsInvalidObj(err) && !storage.IsNotFound(err) {
			return nil, "", err
		}
		// Another writer was faster: read again.
	}
}

// errAbsent ends an update that does not write because the document is to be
// absent.
var errAbsent = errors.New("the document is to be absent")

// change is one attempt to update a document.
type change struct {
	name   string
	update func([]byte) ([]byte, error)
	// existing is the version that was read last, empty if the document is absent.
	existing string
}

// apply is a storage.UpdateFunc.
func (c *change) apply(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
	record := input.(*Record)
	c.existing = record.ResourceVersion
	var current []byte
	if c.existing != "" {
		current = record.document()
	}
	wanted, err := c.update(current)
	switch {
	case err != nil:
		return nil, nil, err
	case wanted == nil:
		return nil, nil, errAbsent
	case len(wanted) > MaxBytes:
		return nil, nil, fmt.Errorf("document has %d bytes, limit %d bytes", len(wanted), MaxBytes)
	}
	return &Record{
		ObjectMeta: metav1.ObjectMeta{Name: c.name, ResourceVersion: c.existing},
		Data:       wanted,
	}, nil, nil
}

// Watch implements Store.
func (s *store) Watch(ctx context.Context, from string, observe func(name string, data []byte, version string)) error {
	if err := s.watch(ctx, from, observe); ctx.Err() == nil {
		return fmt.Errorf("watch records in %s: %w", s.prefix, err)
	}
	return nil
}

func (s *store) watch(ctx context.Context, from string, observe func(name string, data []byte, version string)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(timeout, func() { cancel(fmt.Errorf("not started after %s", timeout)) })
	watcher, err := s.storage.Watch(ctx, s.prefix+"/", storage.ListOptions{ResourceVersion: from, Recursive: true, Predicate: storage.Everything})
	if !limit.Stop() {
		err = errors.Join(context.Cause(ctx), err)
	}
	if watcher != nil {
		defer watcher.Stop()
	}
	if err != nil {
		return err
	}
	for event := range watcher.ResultChan() {
		switch event.Type {
		case watch.Added, watch.Modified:
			record := event.Object.(*Record)
			observe(record.Name, record.document(), record.ResourceVersion)
		case watch.Deleted:
			record := event.Object.(*Record)
			observe(record.Name, nil, record.ResourceVersion)
		case watch.Error:
			return apierrors.FromObject(event.Object)
		}
	}
	return errors.New("the watch ended")
}
