// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package readonly serves only the reading half of a store, so that discovery
// lists get, list and watch and nothing else. Controllers that delete whatever
// discovery says can be deleted then leave the resource alone.
package readonly

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/boundedwatch"
)

// Resource describes a resource that can only be read.
type Resource struct {
	// Plural and Singular are its qualified names.
	Plural, Singular     schema.GroupResource
	NewFunc, NewListFunc func() runtime.Object
	Namespaced           bool
	Table                rest.TableConvertor
	// Fed says that other clusters read it, whose watches are bounded.
	Fed bool
}

// REST can be read and not be written.
type REST struct {
	rest.Storage
	rest.Scoper
	rest.Getter
	rest.Lister
	rest.Watcher
	rest.SingularNameProvider
}

// New serves the reading half of a store that is made of the options.
func New(scheme *runtime.Scheme, options generic.RESTOptionsGetter, resource Resource) (*REST, error) {
	update, remove := strategies(scheme, resource.Namespaced)
	store := &genericregistry.Store{
		NewFunc:                   resource.NewFunc,
		NewListFunc:               resource.NewListFunc,
		DefaultQualifiedResource:  resource.Plural,
		SingularQualifiedResource: resource.Singular,
		UpdateStrategy:            update,
		DeleteStrategy:            remove,
		TableConvertor:            resource.Table,
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return nil, err
	}
	var watcher rest.Watcher = store
	if resource.Fed {
		watcher = boundedwatch.Watcher{Watcher: store}
	}
	return &REST{Storage: store, Scoper: store, Getter: store, Lister: store, Watcher: watcher, SingularNameProvider: store}, nil
}

// WithShortNames is a storage that clients may also ask for by other names.
type WithShortNames struct {
	*REST
	Names []string
}

var _ rest.ShortNamesProvider = &WithShortNames{}

// ShortNames implements rest.ShortNamesProvider.
func (w *WithShortNames) ShortNames() []string { return w.Names }
