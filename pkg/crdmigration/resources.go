// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crdmigration decides how the objects of CRDs of another implementation become objects
// of mcs-apiserver, and back. It is pure: mcs-controller and `kubectl mcs migrate` read and
// write the objects, and agree by means of this package on what they have to be.
package crdmigration

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// Resource is a resource that CRDs may serve instead of mcs-apiserver.
type Resource struct {
	Plural, Kind string
	// Versions are those of mcs-apiserver, the preferred one first. All have the same fields.
	Versions []string
	// Status is true if the status is copied: users write it, not mcs-controller.
	Status bool
	// Finalizers is true if finalizers are copied. Those of ServiceExports belong to the other
	// implementation, which removes them from its own objects only.
	Finalizers bool
	// typed returns an object with all fields that mcs-apiserver knows.
	typed func() any
}

var (
	// Exports are the ServiceExports.
	Exports = Resource{
		Plural: "serviceexports", Kind: "ServiceExport", Versions: []string{"v1beta1", "v1alpha1"},
		typed: func() any { return &multiclusterxv1beta1.ServiceExport{} },
	}
	// Imports are the ServiceImports, which mcs-apiserver computes: they are not copied.
	Imports = Resource{
		Plural: "serviceimports", Kind: "ServiceImport", Versions: []string{"v1beta1", "v1alpha1"}, Status: true,
		typed: func() any { return &multiclusterxv1beta1.ServiceImport{} },
	}
	profiles = Resource{
		Plural: "clusterprofiles", Kind: "ClusterProfile", Versions: []string{"v1alpha1"}, Status: true, Finalizers: true,
		typed: func() any { return &multiclusterxv1alpha1.ClusterProfile{} },
	}
	decisions = Resource{
		Plural: "placementdecisions", Kind: "PlacementDecision", Versions: []string{"v1alpha1"}, Finalizers: true,
		typed: func() any { return &multiclusterxv1alpha1.PlacementDecision{} },
	}
	// Copied are the resources whose objects are copied.
	Copied = []Resource{Exports, profiles, decisions}
)

// GroupVersions are those that CRDs may serve instead of mcs-apiserver.
var GroupVersions = []schema.GroupVersion{multiclusterxv1beta1.SchemeGroupVersion, multiclusterxv1alpha1.SchemeGroupVersion}

// CRD returns the name of the CRD of a resource.
func (r Resource) CRD() string { return r.Plural + "." + multicluster.XGroupName }

// In returns the resource in a version.
func (r Resource) In(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: multicluster.XGroupName, Version: version, Resource: r.Plural}
}

// ServedVersion returns the version in which the objects of a resource with a CRD are read, of
// those group-versions that one server serves: the versions of a CRD may be handed over one by
// one. There is none if the CRD serves none of them that mcs-apiserver has, or is being deleted:
// its objects vanish, but not because a user deleted them.
func (r Resource) ServedVersion(crd *unstructured.Unstructured, groupVersions []schema.GroupVersion) (string, bool) {
	if crd == nil || crd.GetDeletionTimestamp() != nil || !established(crd) {
		return "", false
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, wanted := range r.Versions {
		if slices.Contains(groupVersions, r.In(wanted).GroupVersion()) && slices.ContainsFunc(versions, func(version any) bool {
			fields, ok := version.(map[string]any)
			return ok && fields["name"] == wanted && fields["served"] == true
		}) {
			return wanted, true
		}
	}
	return "", false
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(condition any) bool {
		fields, ok := condition.(map[string]any)
		return ok && fields["type"] == "Established" && fields["status"] == "True"
	})
}
