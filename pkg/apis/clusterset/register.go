// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group that is specific to this implementation.
const GroupName = "clusterset.mcs-apiserver.io"

var (
	// SchemeGroupVersion is the internal version of the group.
	SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: runtime.APIVersionInternal}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the hub types.
	AddToScheme = schemeBuilder.AddToScheme
)

// Resource returns the qualified name of a resource of the group.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion,
		&ExportedService{},
		&ExportedServiceList{},
		&ExportedEndpointSlice{},
		&ExportedEndpointSliceList{},
		&Member{},
		&MemberList{},
	)
	return nil
}
