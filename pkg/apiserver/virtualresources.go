// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"

	aboutv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about/v1beta1"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1alpha1"
	multiclusterxv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/about/clusterproperty"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/clusterset/exportedendpointslice"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/clusterset/exportedservice"
	memberregistry "github.com/mcs-apiserver/mcs-apiserver/pkg/registry/clusterset/member"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/multicluster/serviceimport"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/readonly"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

// virtualResource is a resource that is computed and read-only.
type virtualResource struct {
	readonly.Resource
	// versions are all group-versions that serve the resource. The store is
	// registered with the first one.
	versions []schema.GroupVersion
	// advice returns what to do instead of writing the resource.
	advice advice
}

// virtualResources lists all virtual resources. Their stores, their REST
// storage, the API groups that serve them and the refusal of writes are derived
// from this table. visible is what peers see of Members.
func virtualResources(visible memberregistry.Visible) []virtualResource {
	return []virtualResource{
		{
			serviceimport.Resource(),
			[]schema.GroupVersion{multiclusterxv1beta1.SchemeGroupVersion, multiclusterxv1alpha1.SchemeGroupVersion, multiclusterv1alpha1.SchemeGroupVersion},
			adviseServiceImport,
		},
		{exportedservice.Resource(), []schema.GroupVersion{clustersetv1alpha1.SchemeGroupVersion}, adviseExportedService},
		{exportedendpointslice.Resource(), []schema.GroupVersion{clustersetv1alpha1.SchemeGroupVersion}, adviseExportedEndpointSlice},
		{memberregistry.Resource(visible), []schema.GroupVersion{clustersetv1alpha1.SchemeGroupVersion}, adviseMember},
		{clusterproperty.Resource(), []schema.GroupVersion{aboutv1beta1.SchemeGroupVersion}, adviseClusterProperty},
	}
}

// encodingsBudget is how many bytes of encodings all stores keep together: those of 50,000
// ServiceImports in two group-versions, for example.
const encodingsBudget = 64 << 20

// newStores returns an empty store for each resource.
func newStores(resources []virtualResource) map[schema.GroupResource]*virtual.Store {
	versions, encodings := virtual.NewVersionSource(clock.RealClock{}), encoded.NewBudget(encodingsBudget)
	stores := map[schema.GroupResource]*virtual.Store{}
	for _, resource := range resources {
		stores[resource.Plural] = virtual.NewStore(virtual.Config{
			Resource: resource.Plural, NewFunc: resource.NewFunc, NewListFunc: resource.NewListFunc,
			Namespaced: resource.Namespaced, Versions: versions, Clock: clock.RealClock{}, Equal: resource.Equal, Encodings: encodings,
		})
	}
	return stores
}

// addStorage adds the REST storage of the resource to every group-version that
// serves it. Short names and the category are offered by its own group only: kubectl warns
// about short names that are ambiguous, and would list objects twice.
func (r virtualResource) addStorage(store *virtual.Store, add func(version schema.GroupVersion, resource string, storage rest.Storage)) error {
	storage, err := readonly.New(Scheme, store.RESTOptions(Codecs.LegacyCodec(r.versions[0])), r.Resource)
	if err != nil {
		return err
	}
	for _, version := range r.versions {
		if version.Group == r.Plural.Group {
			add(version, r.Plural.Resource, &readonly.WithNames{REST: storage, Names: r.ShortNames})
		} else {
			add(version, r.Plural.Resource, storage)
		}
	}
	return nil
}

// adviceFor returns the advice of each resource, by every group that serves it.
func adviceFor(resources []virtualResource) map[schema.GroupResource]advice {
	all := map[schema.GroupResource]advice{}
	for _, resource := range resources {
		for _, version := range resource.versions {
			all[schema.GroupResource{Group: version.Group, Resource: resource.Plural.Resource}] = resource.advice
		}
	}
	return all
}
