// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceexport

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
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/handback"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/status"
)

// Storage is the storage of ServiceExports and of their status subresource.
type Storage struct {
	// Export is the resource without short names.
	Export *REST
	// NamedExport is the same resource with short names. Only one group may offer
	// them: kubectl warns about short names that are ambiguous.
	NamedExport *NamedREST
	Status      *status.REST
}

// NewStorage returns the storage of ServiceExports.
func NewStorage(scheme *runtime.Scheme, options generic.RESTOptionsGetter, services ServiceGetter, origins OriginGetter, preview Preview) (*Storage, error) {
	export := &strategy{ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator, services: services, origins: origins, preview: preview}
	for _, group := range []string{multicluster.XGroupName, multicluster.GroupName} {
		for _, version := range scheme.PrioritizedVersionsForGroup(group) {
			export.versions = append(export.versions, fieldpath.APIVersion(version.String()))
		}
	}
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &multicluster.ServiceExport{} },
		NewListFunc:               func() runtime.Object { return &multicluster.ServiceExportList{} },
		DefaultQualifiedResource:  multicluster.XResource("serviceexports"),
		SingularQualifiedResource: multicluster.XResource("serviceexport"),
		CreateStrategy:            export,
		UpdateStrategy:            export,
		DeleteStrategy:            export,
		ResetFieldsStrategy:       export,
		TableConvertor:            newTable(clock.RealClock{}),
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return nil, err
	}
	return &Storage{
		Export:      &REST{store},
		NamedExport: &NamedREST{REST{store}},
		Status:      status.NewREST(store, statusStrategy{export}),
	}, nil
}

// REST is the storage of ServiceExports.
type REST struct {
	*genericregistry.Store
}

// Watch implements rest.Watcher.
func (r *REST) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	return handback.Watcher{Watcher: r.Store}.Watch(ctx, options)
}

// NamedREST is a REST with short names and a category.
type NamedREST struct {
	REST
}

var (
	_ rest.ShortNamesProvider = &NamedREST{}
	_ rest.CategoriesProvider = &NamedREST{}
)

// ShortNames implements rest.ShortNamesProvider with the upstream short names.
func (*NamedREST) ShortNames() []string { return []string{"svcex", "svcexport"} }

// Categories implements rest.CategoriesProvider.
func (*NamedREST) Categories() []string { return []string{multicluster.Category} }
