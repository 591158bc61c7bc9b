// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclaim

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/boundedwatch"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/table"
)

// REST stores ClusterClaims in etcd. Other clusters read them, so watches are
// bounded.
type REST struct {
	*genericregistry.Store
}

var _ rest.CategoriesProvider = &REST{}

// Categories implements rest.CategoriesProvider.
func (*REST) Categories() []string { return []string{multicluster.Category} }

// Watch implements rest.Watcher.
func (r *REST) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	return boundedwatch.Watcher{Watcher: r.Store}.Watch(ctx, options)
}

// NewStorage returns a storage for ClusterClaims.
func NewStorage(scheme *runtime.Scheme, options generic.RESTOptionsGetter) (*REST, error) {
	claim := strategy{scheme, names.SimpleNameGenerator}
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &multicluster.ClusterClaim{} },
		NewListFunc:               func() runtime.Object { return &multicluster.ClusterClaimList{} },
		DefaultQualifiedResource:  multicluster.Resource("clusterclaims"),
		SingularQualifiedResource: multicluster.Resource("clusterclaim"),
		CreateStrategy:            claim,
		UpdateStrategy:            claim,
		DeleteStrategy:            claim,
		TableConvertor: table.NewConvertor(clock.RealClock{}, table.Column[*multicluster.ClusterClaim]{
			Name:        "Value",
			Description: "The value of the claim. Long values are truncated.",
			Cell:        func(claim *multicluster.ClusterClaim) any { return table.Truncate(claim.Spec.Value) },
		}),
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return nil, err
	}
	return &REST{store}, nil
}
