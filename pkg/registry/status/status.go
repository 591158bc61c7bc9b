// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status serves the status subresource of stored resources.
package status

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Strategy governs writes to the status.
type Strategy interface {
	rest.RESTUpdateStrategy
	rest.ResetFieldsStrategy
}

// FieldsOutside returns the fields that writes to the status reset in all the versions, so
// that field managers of the status do not own them.
func FieldsOutside(versions []fieldpath.APIVersion) map[fieldpath.APIVersion]*fieldpath.Set {
	return fields(versions,
		fieldpath.MakePathOrDie("spec"),
		fieldpath.MakePathOrDie("metadata", "labels"),
		fieldpath.MakePathOrDie("metadata", "annotations"),
		fieldpath.MakePathOrDie("metadata", "finalizers"),
		fieldpath.MakePathOrDie("metadata", "ownerReferences"),
	)
}

// FieldsInside returns the fields that all other writes reset in all the versions.
func FieldsInside(versions []fieldpath.APIVersion) map[fieldpath.APIVersion]*fieldpath.Set {
	return fields(versions, fieldpath.MakePathOrDie("status"))
}

func fields(versions []fieldpath.APIVersion, paths ...fieldpath.Path) map[fieldpath.APIVersion]*fieldpath.Set {
	sets := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, version := range versions {
		sets[version] = fieldpath.NewSet(paths...)
	}
	return sets
}

// REST is the storage of a status subresource. It supports get, update and patch only.
type REST struct {
	store *genericregistry.Store
}

var (
	_ rest.Getter              = &REST{}
	_ rest.Updater             = &REST{}
	_ rest.Patcher             = &REST{}
	_ rest.TableConvertor      = &REST{}
	_ rest.ResetFieldsStrategy = &REST{}
)

// NewREST returns the status subresource of a resource.
func NewREST(resource *genericregistry.Store, strategy Strategy) *REST {
	store := *resource
	store.UpdateStrategy = strategy
	store.ResetFieldsStrategy = strategy
	return &REST{&store}
}

// New implements rest.Storage.
func (r *REST) New() runtime.Object { return r.store.New() }

// Destroy does nothing: the store belongs to the resource.
func (*REST) Destroy() {}

// Get implements rest.Getter.
func (r *REST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update implements rest.Updater. It never creates an object.
func (r *REST) Update(ctx context.Context, name string, object rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, object, createValidation, updateValidation, false, options)
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (r *REST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

// ConvertToTable implements rest.TableConvertor.
func (r *REST) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, object, options)
}
