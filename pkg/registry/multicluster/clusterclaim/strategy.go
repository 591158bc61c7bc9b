// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterclaim stores ClusterClaims.
package clusterclaim

import (
	"context"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/migrated"
)

type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
}

var (
	_ rest.RESTCreateStrategy = strategy{}
	_ rest.RESTUpdateStrategy = strategy{}
	_ rest.RESTDeleteStrategy = strategy{}
)

func (strategy) NamespaceScoped() bool          { return false }
func (strategy) AllowCreateOnUpdate() bool      { return false }
func (strategy) AllowUnconditionalUpdate() bool { return true }
func (strategy) Canonicalize(runtime.Object)    {}

func (strategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	claim := object.(*multicluster.ClusterClaim)
	claim.Generation = 1
	migrated.TakeIdentity(claim, time.Now())
}

func (strategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	claim, oldClaim := object.(*multicluster.ClusterClaim), old.(*multicluster.ClusterClaim)
	migrated.KeepIdentity(claim, oldClaim)
	if !apiequality.Semantic.DeepEqual(claim.Spec, oldClaim.Spec) {
		claim.Generation = oldClaim.Generation + 1
	}
}

func (strategy) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	claim := object.(*multicluster.ClusterClaim)
	return append(validation.ValidateClusterClaim(claim), migrated.Validate(claim, time.Now())...)
}

func (strategy) ValidateUpdate(_ context.Context, object, old runtime.Object) field.ErrorList {
	return validation.ValidateClusterClaimUpdate(object.(*multicluster.ClusterClaim), old.(*multicluster.ClusterClaim))
}

func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}
