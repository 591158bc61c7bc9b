// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package readonly serves only the reading half of a store, so that discovery
// lists get, list and watch and nothing else. Controllers that delete whatever
// discovery says can be deleted then leave the resource alone.
package readonly

import (
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
)

// REST can be read and not be written.
type REST struct {
	rest.Storage
	rest.Scoper
	rest.Getter
	rest.Lister
	rest.Watcher
	rest.SingularNameProvider
}

// New returns the reading half of a store.
func New(store *genericregistry.Store) *REST {
	return &REST{
		Storage:              store,
		Scoper:               store,
		Getter:               store,
		Lister:               store,
		Watcher:              store,
		SingularNameProvider: store,
	}
}

// WithShortNames is a storage that clients may also ask for by other names.
type WithShortNames struct {
	*REST
	Names []string
}

var _ rest.ShortNamesProvider = &WithShortNames{}

// ShortNames implements rest.ShortNamesProvider.
func (w *WithShortNames) ShortNames() []string { return w.Names }
