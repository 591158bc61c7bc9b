// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterprofile stores ClusterProfiles.
package clusterprofile

import (
	"context"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/migrated"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/status"
)

// strategy governs writes to metadata and spec.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	// versions are all API versions with which clients can apply a profile.
	versions []fieldpath.APIVersion
}

var (
	_ rest.RESTCreateStrategy  = &strategy{}
	_ rest.RESTUpdateStrategy  = &strategy{}
	_ rest.RESTDeleteStrategy  = &strategy{}
	_ rest.ResetFieldsStrategy = &strategy{}
)

func (*strategy) NamespaceScoped() bool          { return true }
func (*strategy) AllowCreateOnUpdate() bool      { return false }
func (*strategy) AllowUnconditionalUpdate() bool { return true }
func (*strategy) Canonicalize(runtime.Object)    {}

// GetResetFields prevents field managers of metadata and spec from owning the status.
func (s *strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return status.FieldsInside(s.versions)
}

func (*strategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	profile := object.(*inventory.ClusterProfile)
	profile.Status = inventory.ClusterProfileStatus{}
	profile.Generation = 1
	addManagerLabel(profile)
	migrated.TakeIdentity(profile, time.Now())
}

func (*strategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	profile, oldProfile := object.(*inventory.ClusterProfile), old.(*inventory.ClusterProfile)
	profile.Status = oldProfile.Status
	addManagerLabel(profile)
	migrated.KeepIdentity(profile, oldProfile)
	if !apiequality.Semantic.DeepEqual(profile.Spec, oldProfile.Spec) {
		profile.Generation = oldProfile.Generation + 1
	}
}

// addManagerLabel adds the label of the cluster manager if it is missing. Upstream demands
// the label, but its CRD accepts profiles without. A name that cannot be a label value is
// left to validation, which refuses it where it was written.
func addManagerLabel(profile *inventory.ClusterProfile) {
	name := profile.Spec.ClusterManager.Name
	if _, labeled := profile.Labels[inventory.ClusterManagerLabel]; labeled || name == "" || len(utilvalidation.IsValidLabelValue(name)) > 0 {
		return
	}
	if profile.Labels == nil {
		profile.Labels = map[string]string{}
	}
	profile.Labels[inventory.ClusterManagerLabel] = name
}

func (*strategy) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	profile := object.(*inventory.ClusterProfile)
	return append(validation.ValidateClusterProfile(profile), migrated.Validate(profile, time.Now())...)
}

func (*strategy) ValidateUpdate(_ context.Context, object, old runtime.Object) field.ErrorList {
	return validation.ValidateClusterProfileUpdate(object.(*inventory.ClusterProfile), old.(*inventory.ClusterProfile))
}

func (*strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (*strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}

// statusStrategy governs writes to the status subresource.
type statusStrategy struct {
	*strategy
}

// GetResetFields prevents field managers of the status from owning other fields.
func (s statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return status.FieldsOutside(s.versions)
}

func (statusStrategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	profile, oldProfile := object.(*inventory.ClusterProfile), old.(*inventory.ClusterProfile)
	profile.Spec = oldProfile.Spec
	metav1.ResetObjectMetaForStatus(&profile.ObjectMeta, &oldProfile.ObjectMeta)
}

func (statusStrategy) ValidateUpdate(_ context.Context, object, old runtime.Object) field.ErrorList {
	return validation.ValidateClusterProfileStatusUpdate(object.(*inventory.ClusterProfile), old.(*inventory.ClusterProfile))
}
