// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	multiclusterxv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// location is the key prefix and the version with which a resource is stored.
type location struct {
	prefix  string
	version schema.GroupVersion
	hub     schema.GroupVersion
}

// locations must not change: a server that used another prefix, or a version
// that its predecessor cannot read, would lose stored objects.
var locations = map[schema.GroupResource]location{
	multicluster.XResource("serviceexports"): {
		prefix:  "/multicluster.x-k8s.io/serviceexports",
		version: multiclusterxv1beta1.SchemeGroupVersion,
		hub:     multicluster.XSchemeGroupVersion,
	},
	multicluster.Resource("clusterclaims"): {
		prefix:  "/multicluster.k8s.io/clusterclaims",
		version: multiclusterv1.SchemeGroupVersion,
		hub:     multicluster.SchemeGroupVersion,
	},
	inventory.Resource("clusterprofiles"): {
		prefix:  "/multicluster.x-k8s.io/clusterprofiles",
		version: multiclusterxv1alpha1.SchemeGroupVersion,
		hub:     inventory.SchemeGroupVersion,
	},
	inventory.Resource("placementdecisions"): {
		prefix:  "/multicluster.x-k8s.io/placementdecisions",
		version: multiclusterxv1alpha1.SchemeGroupVersion,
		hub:     inventory.SchemeGroupVersion,
	},
}

// frozenLocations sets the key prefix and the storage version of each resource.
type frozenLocations struct {
	generic.RESTOptionsGetter
}

func (f frozenLocations) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	options, err := f.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return options, err
	}
	at, ok := locations[resource]
	if !ok {
		return options, fmt.Errorf("no storage location is defined for %s", resource)
	}
	options.ResourcePrefix = at.prefix
	options.StorageConfig.EncodeVersioner = at.version
	serializer, ok := runtime.SerializerInfoForMediaType(Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return options, fmt.Errorf("no serializer for %s", runtime.ContentTypeJSON)
	}
	options.StorageConfig.Codec = Codecs.CodecForVersions(serializer.Serializer, Codecs.UniversalDeserializer(), at.version, at.hub)
	return options, nil
}
