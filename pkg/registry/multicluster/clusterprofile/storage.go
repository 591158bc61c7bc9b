// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterprofile

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/utils/clock"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/status"
)

// Storage is the storage of ClusterProfiles and of their status subresource.
type Storage struct {
	Profile *genericregistry.Store
	Status  *status.REST
}

// NewStorage returns the storage of ClusterProfiles.
func NewStorage(scheme *runtime.Scheme, options generic.RESTOptionsGetter) (*Storage, error) {
	profile := &strategy{ObjectTyper: scheme, NameGenerator: names.SimpleNameGenerator}
	for _, version := range scheme.VersionsForGroupKind(inventory.Kind("ClusterProfile")) {
		profile.versions = append(profile.versions, fieldpath.APIVersion(version.String()))
	}
	store := &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &inventory.ClusterProfile{} },
		NewListFunc:               func() runtime.Object { return &inventory.ClusterProfileList{} },
		DefaultQualifiedResource:  inventory.Resource("clusterprofiles"),
		SingularQualifiedResource: inventory.Resource("clusterprofile"),
		CreateStrategy:            profile,
		UpdateStrategy:            profile,
		DeleteStrategy:            profile,
		ResetFieldsStrategy:       profile,
		TableConvertor:            newTable(clock.RealClock{}),
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options}); err != nil {
		return nil, err
	}
	return &Storage{Profile: store, Status: status.NewREST(store, statusStrategy{profile})}, nil
}
