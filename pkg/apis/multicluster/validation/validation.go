// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation decides which ServiceExports and ClusterClaims may be stored.
package validation

import (
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
	return append(errs, validateServiceExportSpec(&export.Spec, field.NewPath("spec"))...)
}

// ValidateServiceExportUpdate checks a change of metadata or spec.
func ValidateServiceExportUpdate(export, old *multicluster.ServiceExport) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&export.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
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

// ValidateClusterClaim checks a new ClusterClaim.
func ValidateClusterClaim(claim *multicluster.ClusterClaim) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&claim.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validateClusterClaimSpec(&claim.Spec, field.NewPath("spec"))...)
}

// ValidateClusterClaimUpdate checks a change of a ClusterClaim.
func ValidateClusterClaimUpdate(claim, old *multicluster.ClusterClaim) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&claim.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validateClusterClaimSpec(&claim.Spec, field.NewPath("spec"))...)
}

func validateClusterClaimSpec(spec *multicluster.ClusterClaimSpec, path *field.Path) field.ErrorList {
	if len(spec.Value) > MaxClaimValueBytes {
		return field.ErrorList{field.TooLong(path.Child("value"), spec.Value, MaxClaimValueBytes)}
	}
	return nil
}
