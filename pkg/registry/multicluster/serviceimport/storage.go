// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serviceimport serves ServiceImports, which can only be read.
package serviceimport

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/readonly"
)

// Storage is one store, shown with and without short names.
type Storage struct {
	Import *readonly.REST
	// NamedImport has the short names, which only one group may have.
	NamedImport *readonly.WithShortNames
}

// NewStorage serves an empty store. Nothing writes to it: the imports of the
// ClusterSet are not computed yet.
func NewStorage(scheme *runtime.Scheme, options generic.RESTOptionsGetter) (*Storage, error) {
	update, remove := readonly.Strategies(scheme, true)
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &multicluster.ServiceImport{} },
		NewListFunc:               func() runtime.Object { return &multicluster.ServiceImportList{} },
		DefaultQualifiedResource:  multicluster.XResource("serviceimports"),
		SingularQualifiedResource: multicluster.XResource("serviceimport"),
		UpdateStrategy:            update,
		DeleteStrategy:            remove,
		TableConvertor:            rest.NewDefaultTableConvertor(multicluster.XResource("serviceimports")),
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return nil, err
	}
	imports := readonly.New(store)
	return &Storage{
		Import:      imports,
		NamedImport: &readonly.WithShortNames{REST: imports, Names: []string{"svcim", "svcimport"}},
	}, nil
}
