// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serviceexport stores ServiceExports.
package serviceexport

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/validation"
)

// ServiceGetter looks up a Service of this cluster.
type ServiceGetter func(ctx context.Context, namespace, name string) (*corev1.Service, error)

// Preview says what else the writer of an export ought to know: the conflicts
// that it has with the exports of other clusters.
type Preview func(ctx context.Context, export *multicluster.ServiceExport) []string

// strategy governs writes to metadata and spec.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	services ServiceGetter
	preview  Preview
	// versions are all API versions under which clients may apply an export.
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

// GetResetFields keeps those who apply metadata and spec from owning the status.
func (s *strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.resetFields(fieldpath.MakePathOrDie("status"))
}

func (s *strategy) resetFields(paths ...fieldpath.Path) map[fieldpath.APIVersion]*fieldpath.Set {
	fields := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, version := range s.versions {
		fields[version] = fieldpath.NewSet(paths...)
	}
	return fields
}

func (*strategy) PrepareForCreate(_ context.Context, object runtime.Object) {
	export := object.(*multicluster.ServiceExport)
	export.Status = multicluster.ServiceExportStatus{}
	export.Generation = 1
	keepDecision(export, nil)
}

func (*strategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	export, oldExport := object.(*multicluster.ServiceExport), old.(*multicluster.ServiceExport)
	export.Status = oldExport.Status
	keepDecision(export, oldExport.Annotations)
	if !apiequality.Semantic.DeepEqual(export.Spec, oldExport.Spec) {
		export.Generation = oldExport.Generation + 1
	}
}

func (*strategy) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	return validation.ValidateServiceExport(object.(*multicluster.ServiceExport))
}

func (*strategy) ValidateUpdate(_ context.Context, object, old runtime.Object) field.ErrorList {
	return validation.ValidateServiceExportUpdate(object.(*multicluster.ServiceExport), old.(*multicluster.ServiceExport))
}

// WarningsOnCreate tells the user at once what would otherwise only show in
// the conditions: that there is nothing to export yet, or in what the export
// differs from those of other clusters.
func (s *strategy) WarningsOnCreate(ctx context.Context, object runtime.Object) []string {
	export := object.(*multicluster.ServiceExport)
	service, err := s.services(ctx, export.Namespace, export.Name)
	switch {
	case apierrors.IsNotFound(err):
		return []string{fmt.Sprintf("nothing is exported until there is a Service %q in namespace %q", export.Name, export.Namespace)}
	case err != nil:
		return nil // not knowing is no reason to warn
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return []string{fmt.Sprintf("Service %q in namespace %q is of type ExternalName, which cannot be exported: "+
			"export a Service that has endpoints", export.Name, export.Namespace)}
	}
	return s.preview(ctx, export)
}

// WarningsOnUpdate warns of conflicts again when the export itself changes.
func (s *strategy) WarningsOnUpdate(ctx context.Context, object, old runtime.Object) []string {
	export, oldExport := object.(*multicluster.ServiceExport), old.(*multicluster.ServiceExport)
	same := apiequality.Semantic.DeepEqual(export.Spec, oldExport.Spec) && apiequality.Semantic.DeepEqual(export.Annotations, oldExport.Annotations)
	if export.DeletionTimestamp != nil || same {
		return nil
	}
	return s.WarningsOnCreate(ctx, export)
}

// statusStrategy governs writes to the status subresource.
type statusStrategy struct {
	*strategy
}

// GetResetFields keeps those who apply the status from owning anything else.
func (s statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return s.resetFields(
		fieldpath.MakePathOrDie("spec"),
		fieldpath.MakePathOrDie("metadata", "labels"),
		fieldpath.MakePathOrDie("metadata", "annotations"),
		fieldpath.MakePathOrDie("metadata", "finalizers"),
		fieldpath.MakePathOrDie("metadata", "ownerReferences"),
	)
}

func (statusStrategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	export, oldExport := object.(*multicluster.ServiceExport), old.(*multicluster.ServiceExport)
	export.Spec = oldExport.Spec
	written := export.Annotations
	metav1.ResetObjectMetaForStatus(&export.ObjectMeta, &oldExport.ObjectMeta)
	export.Annotations = maps.Clone(export.Annotations)
	keepDecision(export, written)
}

// keepDecision makes an export hold to the decision about its IP in some
// annotations: that is part of its status, which upstream's type has no room for.
func keepDecision(export *multicluster.ServiceExport, annotations map[string]string) {
	decision, decided := annotations[multicluster.ClusterSetIPDecisionAnnotation]
	if !decided {
		delete(export.Annotations, multicluster.ClusterSetIPDecisionAnnotation)
		return
	}
	if export.Annotations == nil {
		export.Annotations = map[string]string{}
	}
	export.Annotations[multicluster.ClusterSetIPDecisionAnnotation] = decision
}

func (statusStrategy) ValidateUpdate(_ context.Context, object, old runtime.Object) field.ErrorList {
	return validation.ValidateServiceExportStatusUpdate(object.(*multicluster.ServiceExport), old.(*multicluster.ServiceExport))
}

// WarningsOnUpdate has nothing to say: the status is written by controllers.
func (statusStrategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}
