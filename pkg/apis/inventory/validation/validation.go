// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation validates ClusterProfiles and PlacementDecisions.
package validation

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
)

// Limits of the upstream API. Lengths are in characters.
const (
	MaxPropertyNameLength  = 253
	MaxPropertyValueLength = 1024
	MaxDecisions           = 100
)

// ValidateClusterProfile validates a new ClusterProfile.
func ValidateClusterProfile(profile *inventory.ClusterProfile) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&profile.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validateClusterManager(profile)...)
}

// ValidateClusterProfileUpdate validates an update of metadata or spec.
func ValidateClusterProfileUpdate(profile, old *inventory.ClusterProfile) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&profile.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, apivalidation.ValidateImmutableField(profile.Spec.ClusterManager.Name, old.Spec.ClusterManager.Name, field.NewPath("spec", "clusterManager", "name"))...)
	return append(errs, validateClusterManager(profile)...)
}

// validateClusterManager validates the name of the cluster manager in spec and labels.
func validateClusterManager(profile *inventory.ClusterProfile) field.ErrorList {
	name, path := profile.Spec.ClusterManager.Name, field.NewPath("spec", "clusterManager", "name")
	if name == "" {
		return field.ErrorList{field.Required(path, "must be the name of the cluster manager that maintains this ClusterProfile")}
	}
	var errs field.ErrorList
	for _, problem := range validation.IsValidLabelValue(name) {
		errs = append(errs, field.Invalid(path, name, fmt.Sprintf("must be the value of the label %s: %s", inventory.ClusterManagerLabel, problem)))
	}
	if label := profile.Labels[inventory.ClusterManagerLabel]; len(errs) == 0 && label != name {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "labels").Key(inventory.ClusterManagerLabel), label,
			fmt.Sprintf("must be %q, as spec.clusterManager.name", name)))
	}
	return errs
}

// ValidateClusterProfileStatusUpdate validates an update of the status.
func ValidateClusterProfileStatusUpdate(profile, old *inventory.ClusterProfile) field.ErrorList {
	status, path := &profile.Status, field.NewPath("status")
	errs := apivalidation.ValidateObjectMetaUpdate(&profile.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, metav1validation.ValidateConditions(status.Conditions, path.Child("conditions"))...)
	errs = append(errs, validateProperties(status.Properties, path.Child("properties"))...)
	errs = append(errs, validateAccessProviders(status.AccessProviders, path.Child("accessProviders"))...)
	return append(errs, validateAccessProviders(status.CredentialProviders, path.Child("credentialProviders"))...)
}

func validateProperties(properties []inventory.Property, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i, property := range properties {
		errs = append(errs, validateLength(property.Name, MaxPropertyNameLength, path.Index(i).Child("name"))...)
		errs = append(errs, validateUnique(property.Name, names, path.Index(i).Child("name"))...)
		errs = append(errs, validateLength(property.Value, MaxPropertyValueLength, path.Index(i).Child("value"))...)
	}
	return errs
}

func validateAccessProviders(providers []inventory.AccessProvider, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range providers {
		provider, path := &providers[i], path.Index(i)
		if provider.Name == "" {
			errs = append(errs, field.Required(path.Child("name"), ""))
		}
		errs = append(errs, validateUnique(provider.Name, names, path.Child("name"))...)
		for j, extension := range provider.Cluster.Extensions {
			path := path.Child("cluster", "extensions").Index(j)
			if extension.Name == "" {
				errs = append(errs, field.Required(path.Child("name"), ""))
			}
			errs = append(errs, validateExtension(extension.Extension, path.Child("extension"))...)
		}
	}
	return errs
}

// validateExtension requires an object: clients rely on it, and so does server-side apply.
func validateExtension(extension runtime.RawExtension, path *field.Path) field.ErrorList {
	if len(extension.Raw) == 0 && extension.Object == nil {
		return field.ErrorList{field.Required(path, "must be an object; it may be empty")}
	}
	if data, err := extension.MarshalJSON(); err != nil || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return field.ErrorList{field.TypeInvalid(path, string(data), "must be an object")}
	}
	return nil
}

func validateLength(value string, most int, path *field.Path) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, "")}
	case utf8.RuneCountInString(value) > most:
		return field.ErrorList{field.TooLongCharacters(path, value, most)}
	}
	return nil
}

// validateUnique adds a name to those that are taken.
func validateUnique(name string, taken sets.Set[string], path *field.Path) field.ErrorList {
	if name != "" && taken.Has(name) {
		return field.ErrorList{field.Duplicate(path, name)}
	}
	taken.Insert(name)
	return nil
}

// ValidatePlacementDecision validates a new PlacementDecision.
func ValidatePlacementDecision(decision *inventory.PlacementDecision) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&decision.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validateDecisions(decision.Decisions, field.NewPath("decisions"))...)
}

// ValidatePlacementDecisionUpdate validates an update of a PlacementDecision.
func ValidatePlacementDecisionUpdate(decision, old *inventory.PlacementDecision) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&decision.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validateDecisions(decision.Decisions, field.NewPath("decisions"))...)
}

func validateDecisions(decisions []inventory.ClusterDecision, path *field.Path) field.ErrorList {
	if decisions == nil {
		return field.ErrorList{field.Required(path, "must be a list; it may be empty")}
	}
	var errs field.ErrorList
	if len(decisions) > MaxDecisions {
		errs = append(errs, field.TooMany(path, len(decisions), MaxDecisions))
	}
	for i, decision := range decisions {
		if decision.ClusterProfileRef.Name == "" {
			errs = append(errs, field.Required(path.Index(i).Child("clusterProfileRef", "name"), "must be the name of a ClusterProfile"))
		}
	}
	return errs
}
