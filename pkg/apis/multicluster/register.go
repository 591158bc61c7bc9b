// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// GroupName is the group that the KEPs name.
	GroupName = "multicluster.k8s.io"
	// XGroupName is the group of the upstream mcs-api project.
	XGroupName = "multicluster.x-k8s.io"
)

var (
	// SchemeGroupVersion is the hub of multicluster.k8s.io.
	SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: runtime.APIVersionInternal}
	// XSchemeGroupVersion is the hub of multicluster.x-k8s.io.
	XSchemeGroupVersion = schema.GroupVersion{Group: XGroupName, Version: runtime.APIVersionInternal}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the hub types under both groups.
	AddToScheme = schemeBuilder.AddToScheme
)

// Resource qualifies a resource of multicluster.k8s.io.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

// XResource qualifies a resource of multicluster.x-k8s.io.
func XResource(resource string) schema.GroupResource {
	return XSchemeGroupVersion.WithResource(resource).GroupResource()
}

// XKind qualifies a kind of multicluster.x-k8s.io.
func XKind(kind string) schema.GroupKind {
	return XSchemeGroupVersion.WithKind(kind).GroupKind()
}

// Kind qualifies a kind of multicluster.k8s.io.
func Kind(kind string) schema.GroupKind {
	return SchemeGroupVersion.WithKind(kind).GroupKind()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	for _, gv := range []schema.GroupVersion{XSchemeGroupVersion, SchemeGroupVersion} {
		scheme.AddKnownTypes(gv,
			&ServiceExport{},
			&ServiceExportList{},
			&ServiceImport{},
			&ServiceImportList{},
		)
	}
	scheme.AddKnownTypes(SchemeGroupVersion,
		&ClusterClaim{},
		&ClusterClaimList{},
	)
	return nil
}
