// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package categorized serves stored resources as part of a category.
package categorized

import (
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// REST is a store that is part of the category of all resources of mcs-apiserver.
type REST struct {
	*genericregistry.Store
}

var _ rest.CategoriesProvider = REST{}

// Categories implements rest.CategoriesProvider.
func (REST) Categories() []string { return []string{multicluster.Category} }
