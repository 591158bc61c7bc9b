// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// GroupName is the API group used by KEP-1645 and KEP-2149.
	GroupName = "multicluster.k8s.io"
	// XGroupName is the API group of sigs.k8s.io/mcs-api.
	XGroupName = "multicluster.x-k8s.io"
	// Category is that of all resources of mcs-apiserver: `kubectl get multicluster`.
	// Resources that several groups serve have it in one of them.
	Category = "multicluster"
)

var (
	// SchemeGroupVersion is the internal version of multicluster.k8s.io.
	SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: runtime.APIVersionInternal}
	// XSchemeGroupVersion is the internal version of multicluster.x-k8s.io.
	XSchemeGroupVersion = schema.GroupVersion{Group: XGroupName, Version: runtime.APIVersionInternal}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the hub types with both groups.
	AddToScheme = schemeBuilder.AddToScheme
)

// Resource returns the qualified name of a resource of multicluster.k8s.io.
func Resource(resource string) schema.GroupResource {
	return SchemeGroupVersion.WithResource(resource).GroupResource()
}

// XResource returns the qualified name of a resource of multicluster.x-k8s.io.
func XResource(resource string) schema.GroupResource {
	return XSchemeGroupVersion.WithResource(resource).GroupResource()
}

// XKind returns the qualified name of a kind of multicluster.x-k8s.io.
func XKind(kind string) schema.GroupKind {
	return XSchemeGroupVersion.WithKind(kind).GroupKind()
}

// Kind returns the qualified name of a kind of multicluster.k8s.io.
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
