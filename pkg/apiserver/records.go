// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record"
)

// Kinds of records. A kind is part of all keys, so that it must not change.
const (
	// livesKind are the lives of imports.
	livesKind = "lives"
	// membersKind are the last known exports of members.
	membersKind = "members"
)

// recordKinds are all kinds. What is missing here is not moved to another storage.
var recordKinds = []string{livesKind, membersKind}

// records opens stores of documents that are not API objects. They are kept in
// the same storage as API objects.
type records struct {
	// options add no watch cache.
	options generic.RESTOptionsGetter
	destroy []func()
}

// open returns the store of a kind.
func (r *records) open(kind string) (record.Store, error) {
	if !slices.Contains(recordKinds, kind) {
		return nil, fmt.Errorf("unknown kind %q of records", kind)
	}
	resource := record.Resource(kind)
	options, err := r.options.GetRESTOptions(resource, &record.Record{})
	if err != nil {
		return nil, fmt.Errorf("storage options of %s: %w", resource, err)
	}
	options.ResourcePrefix = "/" + resource.Group + "/" + resource.Resource
	store, destroy, err := record.New(options)
	if err != nil {
		return nil, err
	}
	r.destroy = append(r.destroy, destroy)
	return store, nil
}

// close releases all stores. They must no longer be in use.
func (r *records) close() {
	for _, destroy := range r.destroy {
		destroy()
	}
}
