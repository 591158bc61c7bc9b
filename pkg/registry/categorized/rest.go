// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package categorized serves stored resources as part of a category.
package categorized

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/watch"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/handback"
)

// REST is a store that is part of the category of all resources of mcs-apiserver.
type REST struct {
	*genericregistry.Store
}

var _ rest.CategoriesProvider = REST{}

// Watch implements rest.Watcher.
func (r REST) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	return handback.Watcher{Watcher: r.Store}.Watch(ctx, options)
}

// Categories implements rest.CategoriesProvider.
func (REST) Categories() []string { return []string{multicluster.Category} }
