// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// location is where and in which version the objects of a resource are kept.
type location struct {
	prefix  string
	version schema.GroupVersion
	hub     schema.GroupVersion
}

// locations are frozen: a server that looked elsewhere, or that wrote a
// version which its predecessor cannot read, would lose what is stored.
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
}

// What is kept besides objects. Frozen as well.
const (
	// birthsLocation is for who imports are, and since when.
	birthsLocation = "virtual/births"
	// memoryLocation is for what members last exported.
	memoryLocation = "virtual/members"
)

// frozenLocations gives every resource its place and version in etcd.
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
		return options, fmt.Errorf("nobody decided where to store %s", resource)
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
