// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// serviceLabels returns the labels of the derived Service of an import.
func serviceLabels(serviceImport *multiclusterxv1beta1.ServiceImport) map[string]string {
	return map[string]string{multicluster.ServiceNameLabel: serviceImport.Name, multicluster.ManagedByLabel: multicluster.ManagedBy}
}

// isDerived reports whether a Service is a derived Service of this controller.
func isDerived(service *corev1.Service) bool {
	return service.Labels[multicluster.ManagedByLabel] == multicluster.ManagedBy && service.Labels[multicluster.ServiceNameLabel] != ""
}

// isDerivedFrom reports whether a Service is the derived Service of the import with a name.
// Two imports in a namespace can have the same name for it, if somebody chose one of them so.
func isDerivedFrom(service *corev1.Service, name string) bool {
	return isDerived(service) && service.Labels[multicluster.ServiceNameLabel] == name
}

// desiredService returns the derived Service of an import, given the existing one.
// Fields, labels and annotations that others own are preserved.
func desiredService(existing *corev1.Service, serviceImport *multiclusterxv1beta1.ServiceImport, form variant) *corev1.Service {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: serviceImport.Namespace, Name: multicluster.DerivedServiceName(serviceImport.Namespace, serviceImport.Name),
	}}
	if existing != nil {
		service = existing.DeepCopy()
	}
	if service.Labels == nil {
		service.Labels = map[string]string{}
	}
	maps.Copy(service.Labels, serviceLabels(serviceImport))
	spec, wanted := &service.Spec, &serviceImport.Spec
	spec.Selector, spec.ExternalName = nil, ""
	// The primary IP family of a Service is immutable, so the Service gets all
	// families of the cluster; the import shows those of the exports.
	spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyPreferDualStack)
	spec.Ports = servicePorts(wanted.Ports)
	spec.SessionAffinity = cmp.Or(wanted.SessionAffinity, corev1.ServiceAffinityNone)
	spec.SessionAffinityConfig = affinityConfig(spec.SessionAffinity, wanted.SessionAffinityConfig)
	spec.TrafficDistribution = knownDistribution(wanted.TrafficDistribution)
	if headless(serviceImport) {
		spec.ClusterIP = corev1.ClusterIPNone
	}
	spec.InternalTrafficPolicy = ptr.To(ptr.Deref(wanted.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster))
	setAnnotation(service, multicluster.ImportLifeAnnotation, serviceImport.Annotations[multicluster.ImportLifeAnnotation])
	if form.complete(existing) {
		setAnnotation(service, multicluster.PendingTypeAnnotation, "")
	}
	form.apply(service)
	return service
}

// setAnnotation sets an annotation, or removes it if the value is empty.
func setAnnotation(service *corev1.Service, name, value string) {
	if value == "" {
		delete(service.Annotations, name)
		return
	}
	if service.Annotations == nil {
		service.Annotations = map[string]string{}
	}
	service.Annotations[name] = value
}

// affinityConfig returns the session affinity config of an import with the API
// server's defaults, so that it equals what is read back.
func affinityConfig(affinity corev1.ServiceAffinity, wanted *corev1.SessionAffinityConfig) *corev1.SessionAffinityConfig {
	if affinity != corev1.ServiceAffinityClientIP {
		return nil
	}
	if wanted == nil || wanted.ClientIP == nil || wanted.ClientIP.TimeoutSeconds == nil {
		return &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To(corev1.DefaultClientIPServiceAffinitySeconds)}}
	}
	return wanted.DeepCopy()
}

// wantedType returns the type that an import has, or is about to have.
func wantedType(serviceImport *multiclusterxv1beta1.ServiceImport) multiclusterxv1beta1.ServiceImportType {
	return cmp.Or(multiclusterxv1beta1.ServiceImportType(serviceImport.Annotations[multicluster.PendingTypeAnnotation]), serviceImport.Spec.Type)
}

// headless reports whether the derived Service of an import should be headless.
func headless(serviceImport *multiclusterxv1beta1.ServiceImport) bool {
	return wantedType(serviceImport) == multiclusterxv1beta1.Headless
}

func servicePorts(ports []multiclusterxv1beta1.ServicePort) []corev1.ServicePort {
	var result []corev1.ServicePort
	for _, port := range ports {
		result = append(result, corev1.ServicePort{
			Name: port.Name, Protocol: cmp.Or(port.Protocol, corev1.ProtocolTCP), AppProtocol: port.AppProtocol,
			Port: port.Port, TargetPort: intstr.FromInt32(port.Port),
		})
	}
	return result
}

// retained reports whether an import is shown although no cluster is known to export it.
func retained(serviceImport *multiclusterxv1beta1.ServiceImport) bool {
	ready := meta.FindStatusCondition(serviceImport.Status.Conditions, multicluster.ServiceImportReady)
	return ready != nil && ready.Reason == multicluster.ServiceImportReasonExportsUnknown
}

// sameService reports whether the Service does not have to be updated.
func sameService(existing, desired *corev1.Service) bool {
	for _, annotation := range []string{
		multicluster.ImportLifeAnnotation, multicluster.PendingTypeAnnotation, multicluster.ClusterSetIPProblemAnnotation, multicluster.TrafficDistributionProblemAnnotation,
		multicluster.ClusterPreferenceAnnotation, multicluster.PreferenceMinReadyAnnotation, multicluster.ClusterPreferenceProblemAnnotation,
		multicluster.ActiveTierAnnotation, multicluster.ActiveTierReasonAnnotation,
	} {
		if existing.Annotations[annotation] != desired.Annotations[annotation] {
			return false
		}
	}
	return apiequality.Semantic.DeepEqual(existing.Labels, desired.Labels) && apiequality.Semantic.DeepEqual(existing.Spec, desired.Spec)
}
