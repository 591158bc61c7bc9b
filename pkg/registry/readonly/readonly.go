// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package readonly serves the read methods of a store only, so that discovery
// lists the verbs get, list and watch. Controllers that delete every deletable
// resource, such as the namespace controller, then ignore the resource.
package readonly

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/boundedwatch"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/handback"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/peerview"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

// Resource describes a read-only resource.
type Resource struct {
	// Plural and Singular are the qualified names of the resource.
	Plural, Singular     schema.GroupResource
	NewFunc, NewListFunc func() runtime.Object
	Namespaced           bool
	// Equal reports whether an update changes nothing; by default semantic equality.
	Equal func(held, updated runtime.Object) bool
	Table rest.TableConvertor
	// ShortNames are offered by the group of the resource only.
	ShortNames []string
	// Feed is what other clusters see of the resource; nil if they do not read it.
	// Their watches are bounded.
	Feed *peerview.Feed
}

// REST is a read-only storage.
type REST struct {
	rest.Storage
	rest.Scoper
	rest.Getter
	rest.Lister
	rest.Watcher
	rest.SingularNameProvider
}

// New returns the read methods of a store that is created with the options. What they
// return is wrapped by package encoded.
func New(scheme *runtime.Scheme, options generic.RESTOptionsGetter, resource Resource) (*REST, error) {
	update, remove := strategies(scheme, resource.Namespaced)
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return encoded.New(resource.NewFunc()) },
		NewListFunc:               func() runtime.Object { return encoded.NewList(resource.NewListFunc) },
		DefaultQualifiedResource:  resource.Plural,
		SingularQualifiedResource: resource.Singular,
		UpdateStrategy:            update,
		DeleteStrategy:            remove,
		TableConvertor:            resource.Table,
	}
	complete := &generic.StoreOptions{RESTOptions: options}
	if resource.Feed != nil && resource.Feed.Audience != nil {
		complete.AttrFunc = resource.Feed.Attributes
	}
	if err := store.CompleteWithOptions(complete); err != nil {
		return nil, err
	}
	var reader peerview.Reader = store
	if resource.Feed != nil {
		reader = peerview.Storage{Reader: bounded{store, boundedwatch.Watcher{Watcher: store}}, Resource: resource.Plural, Feed: *resource.Feed}
	}
	return &REST{
		Storage: hub{store, resource.NewFunc}, Scoper: store, SingularNameProvider: store,
		Getter: reader, Lister: hubList{reader, resource.NewListFunc}, Watcher: handback.Watcher{Watcher: reader},
	}, nil
}

// hub returns the type that is registered for the resource.
type hub struct {
	rest.Storage
	newFunc func() runtime.Object
}

// New implements rest.Storage.
func (h hub) New() runtime.Object { return h.newFunc() }

// hubList returns the type of lists that is registered for the resource.
type hubList struct {
	rest.Lister
	newListFunc func() runtime.Object
}

// NewList implements rest.Lister.
func (h hubList) NewList() runtime.Object { return h.newListFunc() }

// bounded reads a store with bounded watches.
type bounded struct {
	*genericregistry.Store
	watcher boundedwatch.Watcher
}

// Watch implements rest.Watcher.
func (b bounded) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	return b.watcher.Watch(ctx, options)
}

// WithNames is a REST that offers short names and a category.
type WithNames struct {
	*REST
	Names []string
}

var (
	_ rest.ShortNamesProvider = &WithNames{}
	_ rest.CategoriesProvider = &WithNames{}
)

// ShortNames implements rest.ShortNamesProvider.
func (w *WithNames) ShortNames() []string { return w.Names }

// Categories implements rest.CategoriesProvider.
func (*WithNames) Categories() []string { return []string{multicluster.Category} }
