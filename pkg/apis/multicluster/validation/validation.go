// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation decides which ServiceExports and ClusterClaims may be stored.
package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clustersetvalidation "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// MaxClaimValueBytes is how long the value of a ClusterClaim may be, as upstream has it.
const MaxClaimValueBytes = 128_000

// validateServiceName accepts every name that a Service can have. Kubernetes
// is moving Service names from RFC 1035 to RFC 1123 labels, so the wider of
// the two is the one that never refuses the export of an existing Service.
var validateServiceName = apivalidation.NameIsDNSLabel

// ValidateServiceExport checks a new ServiceExport.
func ValidateServiceExport(export *multicluster.ServiceExport) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&export.ObjectMeta, true, validateServiceName, field.NewPath("metadata"))
	errs = append(errs, validateWish(export.Annotations)...)
	return append(errs, validateServiceExportSpec(&export.Spec, field.NewPath("spec"))...)
}

// validateWish checks whether it can be told if a ClusterSet IP is wanted.
func validateWish(annotations map[string]string) field.ErrorList {
	switch value, given := annotations[multicluster.UseClusterSetIPAnnotation]; {
	case !given, value == "true", value == "false":
		return nil
	default:
		path := field.NewPath("metadata", "annotations").Key(multicluster.UseClusterSetIPAnnotation)
		return field.ErrorList{field.NotSupported(path, value, []string{"true", "false"})}
	}
}

// ValidateServiceExportUpdate checks a change of metadata or spec.
func ValidateServiceExportUpdate(export, old *multicluster.ServiceExport) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&export.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, validateWish(export.Annotations)...)
	return append(errs, validateServiceExportSpec(&export.Spec, field.NewPath("spec"))...)
}

// ValidateServiceExportStatusUpdate checks a change of the status.
func ValidateServiceExportStatusUpdate(export, old *multicluster.ServiceExport) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&export.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, metav1validation.ValidateConditions(export.Status.Conditions, field.NewPath("status", "conditions"))...)
}

func validateServiceExportSpec(spec *multicluster.ServiceExportSpec, path *field.Path) field.ErrorList {
	labels, annotations := path.Child("exportedLabels"), path.Child("exportedAnnotations")
	errs := metav1validation.ValidateLabels(spec.ExportedLabels, labels)
	errs = append(errs, validateNotReserved(spec.ExportedLabels, labels)...)
	errs = append(errs, apivalidation.ValidateAnnotations(spec.ExportedAnnotations, annotations)...)
	return append(errs, validateNotReserved(spec.ExportedAnnotations, annotations)...)
}

// validateNotReserved refuses keys that only the implementation sets on an
// import: an export must not be able to forge where an import comes from.
func validateNotReserved(keys map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		for _, prefix := range []string{multicluster.MulticlusterKeyPrefix, multicluster.ClusterSetKeyPrefix} {
			if strings.HasPrefix(key, prefix) {
				errs = append(errs, field.Forbidden(path.Key(key),
					"keys under "+prefix+" are set by the implementation alone; export this under a key of your own"))
			}
		}
	}
	return errs
}

// reservedDomains are those in which Kubernetes and its projects alone name
// claims. sigs.k8s.io is one of k8s.io.
var reservedDomains = []string{"k8s.io", "kubernetes.io"}

// ValidateClusterClaim checks a new ClusterClaim.
func ValidateClusterClaim(claim *multicluster.ClusterClaim) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&claim.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validateClaimName(claim.Name, field.NewPath("metadata", "name"))...)
	return append(errs, validateClaimValue(claim.Name, claim.Spec.Value, field.NewPath("spec", "value"))...)
}

// ValidateClusterClaimUpdate checks a change of a ClusterClaim. What was stored
// before there was a rule may stay as it is.
func ValidateClusterClaimUpdate(claim, old *multicluster.ClusterClaim) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&claim.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	if claim.Spec.Value == old.Spec.Value {
		return errs
	}
	return append(errs, validateClaimValue(claim.Name, claim.Spec.Value, field.NewPath("spec", "value"))...)
}

func validateClaimName(name string, path *field.Path) field.ErrorList {
	if name == multicluster.ClusterIDClaim || name == multicluster.ClusterSetClaim {
		return nil
	}
	for _, domain := range reservedDomains {
		if name == domain || strings.HasSuffix(name, "."+domain) {
			return field.ErrorList{field.Forbidden(path, fmt.Sprintf(
				"names in %s are reserved for Kubernetes, and of these only %s and %s are known: name the claim in a domain of your own, such as region.example.com",
				domain, multicluster.ClusterIDClaim, multicluster.ClusterSetClaim))}
		}
	}
	return nil
}

// validateClaimValue checks a value. That of clusterset.k8s.io may be anything
// that tells one ClusterSet from another; there is more to say of an id only
// because it is part of DNS names and labels.
func validateClaimValue(name, value string, path *field.Path) field.ErrorList {
	if len(value) > MaxClaimValueBytes {
		return field.ErrorList{field.TooLong(path, value, MaxClaimValueBytes)}
	}
	switch name {
	case multicluster.ClusterIDClaim:
		return clustersetvalidation.ValidateClusterID(value, path)
	case multicluster.ClusterSetClaim:
		if value == "" {
			return field.ErrorList{field.Required(path, "the name of the ClusterSet that this cluster joins; to leave one, delete the claim")}
		}
	}
	return nil
}
