// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placementdecision stores PlacementDecisions.
package placementdecision

import (
	"context"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory/validation"
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

func (strategy) NamespaceScoped() bool          { return true }
func (strategy) AllowCreateOnUpdate() bool      { return false }
func (strategy) AllowUnconditionalUpdate() bool { return true }
func (strategy) Canonicalize(runtime.Object)    {}

func (strategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	decision := object.(*inventory.PlacementDecision)
	decision.Generation = 1
	migrated.TakeIdentity(decision, time.Now())
}

func (strategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	decision, oldDecision := object.(*inventory.PlacementDecision), old.(*inventory.PlacementDecision)
	migrated.KeepIdentity(decision, oldDecision)
	if decision.SchedulerName != oldDecision.SchedulerName || !apiequality.Semantic.DeepEqual(decision.Decisions, oldDecision.Decisions) {
		decision.Generation = oldDecision.Generation + 1
	}
}

func (strategy) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	decision := object.(*inventory.PlacementDecision)
	return append(validation.ValidatePlacementDecision(decision), migrated.Validate(decision, time.Now())...)
}

func (strategy) ValidateUpdate(_ context.Context, object, old runtime.Object) field.ErrorList {
	return validation.ValidatePlacementDecisionUpdate(object.(*inventory.PlacementDecision), old.(*inventory.PlacementDecision))
}

func (strategy) WarningsOnCreate(context.Context, runtime.Object) []string { return nil }

func (strategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}
