// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serviceexport stores ServiceExports.
package serviceexport

import (
	"context"
	"maps"
	"time"

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
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/migrated"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/status"
)

// ServiceGetter looks up a Service of this cluster.
type ServiceGetter func(ctx context.Context, namespace, name string) (*corev1.Service, error)

// OriginGetter returns the origin of objects that are created in a namespace.
type OriginGetter func(ctx context.Context, namespace string) (multicluster.Origin, error)

// Preview returns warnings for the writer of a valid export, such as conflicts
// with the exports of other clusters.
type Preview func(ctx context.Context, export *multicluster.ServiceExport) []string

// strategy governs writes to metadata and spec.
type strategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	services ServiceGetter
	origins  OriginGetter
	preview  Preview
	// versions are all API versions with which clients can apply an export.
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

func (s *strategy) PrepareForCreate(ctx context.Context, object runtime.Object) {
	export := object.(*multicluster.ServiceExport)
	export.Status = multicluster.ServiceExportStatus{}
	export.Generation = 1
	var own map[string]string
	if origin, err := s.origins(ctx, export.Namespace); err == nil { // otherwise it is unknown
		own = map[string]string{multicluster.OriginAnnotation: origin.String()}
	}
	keepAnnotations(export, own, multicluster.ClusterSetIPDecisionAnnotation, multicluster.OriginAnnotation)
	migrated.TakeIdentity(export, time.Now())
}

func (*strategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	export, oldExport := object.(*multicluster.ServiceExport), old.(*multicluster.ServiceExport)
	export.Status = oldExport.Status
	keepAnnotations(export, oldExport.Annotations, multicluster.ClusterSetIPDecisionAnnotation, multicluster.OriginAnnotation)
	migrated.KeepIdentity(export, oldExport)
	if !apiequality.Semantic.DeepEqual(export.Spec, oldExport.Spec) {
		export.Generation = oldExport.Generation + 1
	}
}

func (*strategy) Validate(_ context.Context, object runtime.Object) field.ErrorList {
	export := object.(*multicluster.ServiceExport)
	return append(validation.ValidateServiceExport(export), migrated.Validate(export, time.Now())...)
}

func (*strategy) ValidateUpdate(_ context.Context, object, old runtime.Object) field.ErrorList {
	return validation.ValidateServiceExportUpdate(object.(*multicluster.ServiceExport), old.(*multicluster.ServiceExport))
}

// WarningsOnCreate warns about problems that the conditions will report later:
// why the Service cannot be exported, or conflicts with other exports.
func (s *strategy) WarningsOnCreate(ctx context.Context, object runtime.Object) []string {
	written := object.(*multicluster.ServiceExport)
	service, err := s.services(ctx, written.Namespace, written.Name)
	switch {
	case apierrors.IsNotFound(err):
		service = nil
	case err != nil:
		return nil // warnings are best effort
	}
	if problem := export.Check(written.Namespace, written.Name, service); problem != nil {
		return []string{problem.Message}
	}
	return s.preview(ctx, written)
}

// WarningsOnUpdate repeats the warnings when the export itself changes.
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

// GetResetFields prevents field managers of the status from owning other fields.
func (s statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return status.FieldsOutside(s.versions)
}

func (statusStrategy) PrepareForUpdate(_ context.Context, object, old runtime.Object) {
	export, oldExport := object.(*multicluster.ServiceExport), old.(*multicluster.ServiceExport)
	export.Spec = oldExport.Spec
	written := export.Annotations
	metav1.ResetObjectMetaForStatus(&export.ObjectMeta, &oldExport.ObjectMeta)
	export.Annotations = maps.Clone(export.Annotations)
	keepAnnotations(export, written, multicluster.ClusterSetIPDecisionAnnotation)
}

// keepAnnotations sets the annotations of an export with these keys to the given
// ones. The server owns them: the decision about the ClusterSet IP is part of the
// status, for which the upstream type has no field, and the origin never changes.
func keepAnnotations(export *multicluster.ServiceExport, annotations map[string]string, keys ...string) {
	for _, key := range keys {
		value, kept := annotations[key]
		if !kept {
			delete(export.Annotations, key)
			continue
		}
		if export.Annotations == nil {
			export.Annotations = map[string]string{}
		}
		export.Annotations[key] = value
	}
}

func (statusStrategy) ValidateUpdate(_ context.Context, object, old runtime.Object) field.ErrorList {
	return validation.ValidateServiceExportStatusUpdate(object.(*multicluster.ServiceExport), old.(*multicluster.ServiceExport))
}

// WarningsOnUpdate returns no warnings: controllers write the status.
func (statusStrategy) WarningsOnUpdate(context.Context, runtime.Object, runtime.Object) []string {
	return nil
}
