// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation validates ServiceExports and ClusterClaims.
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
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterlist"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
)

// MaxClaimValueBytes is the maximum size of the value of a ClusterClaim, as in
// sigs.k8s.io/about-api.
const MaxClaimValueBytes = 128_000

// MaxExportedMetadataBytes is the maximum size of the exported labels and annotations of a
// ServiceExport, which all clusters of the ClusterSet hold.
const MaxExportedMetadataBytes = 64 << 10

// validateServiceName accepts every valid Service name. Kubernetes is relaxing
// Service names from RFC 1035 to RFC 1123 labels; the latter accept the names of
// all existing Services.
var validateServiceName = apivalidation.NameIsDNSLabel

// ValidateServiceExport validates a new ServiceExport.
func ValidateServiceExport(export *multicluster.ServiceExport) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&export.ObjectMeta, true, validateServiceName, field.NewPath("metadata"))
	errs = append(errs, validateUseClusterSetIP(export.Annotations)...)
	errs = append(errs, validatePreference(export.Annotations, nil)...)
	errs = append(errs, validateExportTo(export.Annotations, nil)...)
	errs = append(errs, validateExportedSize(&export.Spec, 0, field.NewPath("spec"))...)
	return append(errs, validateServiceExportSpec(&export.Spec, field.NewPath("spec"))...)
}

// validateUseClusterSetIP validates the annotation that requests a shared
// ClusterSet IP.
func validateUseClusterSetIP(annotations map[string]string) field.ErrorList {
	switch value, given := annotations[multicluster.UseClusterSetIPAnnotation]; {
	case !given, value == "true", value == "false":
		return nil
	default:
		path := field.NewPath("metadata", "annotations").Key(multicluster.UseClusterSetIPAnnotation)
		return field.ErrorList{field.NotSupported(path, value, []string{"true", "false"})}
	}
}

// validateExportTo validates the annotation that says which clusters an export is for. An unchanged
// one is not validated again, because it may predate the rules.
func validateExportTo(annotations, old map[string]string) field.ErrorList {
	if before, had := old[multicluster.ExportToAnnotation]; had && before == annotations[multicluster.ExportToAnnotation] {
		return nil
	}
	_, _, errs := clusterlist.Parse(annotations, multicluster.ExportToAnnotation)
	return errs
}

// validatePreference validates the annotations that say which clusters should answer.
// Unchanged ones are not validated again, because they may predate the rules.
func validatePreference(annotations, old map[string]string) field.ErrorList {
	changed := func(key string) bool {
		value, given := annotations[key]
		before, had := old[key]
		return given && (!had || value != before)
	}
	if !changed(multicluster.ClusterPreferenceAnnotation) && !changed(multicluster.PreferenceMinReadyAnnotation) {
		return nil
	}
	_, errs := clusterpreference.Parse(annotations)
	return errs
}

// ValidateServiceExportUpdate validates an update of metadata or spec. What is exported may
// be as large as before, because it may predate the limit.
func ValidateServiceExportUpdate(export, old *multicluster.ServiceExport) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&export.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, validateUseClusterSetIP(export.Annotations)...)
	errs = append(errs, validatePreference(export.Annotations, old.Annotations)...)
	errs = append(errs, validateExportTo(export.Annotations, old.Annotations)...)
	errs = append(errs, validateExportedSize(&export.Spec, exportedSize(&old.Spec), field.NewPath("spec"))...)
	return append(errs, validateServiceExportSpec(&export.Spec, field.NewPath("spec"))...)
}

// ValidateServiceExportStatusUpdate validates an update of the status.
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

// validateExportedSize limits what other clusters have to hold of an export.
func validateExportedSize(spec *multicluster.ServiceExportSpec, before int, path *field.Path) field.ErrorList {
	size := exportedSize(spec)
	if size <= max(MaxExportedMetadataBytes, before) {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, fmt.Sprintf(
		"exportedLabels and exportedAnnotations have %d bytes, and may have %d because all clusters of the ClusterSet hold them; remove or shorten some",
		size, MaxExportedMetadataBytes))}
}

// exportedSize returns the size of the exported labels and annotations in bytes.
func exportedSize(spec *multicluster.ServiceExportSpec) int {
	size := 0
	for _, exported := range []map[string]string{spec.ExportedLabels, spec.ExportedAnnotations} {
		for key, value := range exported {
			size += len(key) + len(value)
		}
	}
	return size
}

// validateNotReserved rejects keys that are reserved for the implementation, so
// that an export cannot forge the origin of an import.
func validateNotReserved(keys map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		for _, prefix := range []string{multicluster.MulticlusterKeyPrefix, multicluster.ClusterSetKeyPrefix} {
			if strings.HasPrefix(key, prefix) {
				errs = append(errs, field.Forbidden(path.Key(key),
					"keys with the prefix "+prefix+" are reserved for the implementation; use a key with another prefix"))
			}
		}
	}
	return errs
}

// ValidateClusterClaim validates a new ClusterClaim.
func ValidateClusterClaim(claim *multicluster.ClusterClaim) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&claim.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validateClaimName(claim.Name, field.NewPath("metadata", "name"))...)
	return append(errs, validateClaimValue(claim.Name, claim.Spec.Value, field.NewPath("spec", "value"))...)
}

// ValidateClusterClaimUpdate validates an update of a ClusterClaim. An unchanged
// value is not validated again, because it may predate a rule.
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
	if domain := multicluster.ReservedDomain(name); domain != "" {
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf(
			"names in the domain %s are reserved for Kubernetes; only %s and %s are supported. Use a name in your own domain, such as region.example.com",
			domain, multicluster.ClusterIDClaim, multicluster.ClusterSetClaim))}
	}
	return nil
}

// validateClaimValue validates the value of a claim. The value of
// clusterset.k8s.io may be any text. The value of id.k8s.io is restricted because
// it is part of DNS names and labels.
func validateClaimValue(name, value string, path *field.Path) field.ErrorList {
	if len(value) > MaxClaimValueBytes {
		return field.ErrorList{field.TooLong(path, value, MaxClaimValueBytes)}
	}
	switch name {
	case multicluster.ClusterIDClaim:
		return clustersetvalidation.ValidateClusterID(value, path)
	case multicluster.ClusterSetClaim:
		if value == "" {
			return field.ErrorList{field.Required(path, "must be the name of the ClusterSet to join; to leave the ClusterSet, delete the claim")}
		}
	}
	return nil
}
