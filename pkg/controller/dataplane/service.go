// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// serviceLabels are those of the Service that stands for an import.
func serviceLabels(serviceImport *multiclusterxv1beta1.ServiceImport) map[string]string {
	return map[string]string{multicluster.ServiceNameLabel: serviceImport.Name, multicluster.ManagedByLabel: multicluster.ManagedBy}
}

// ours says whether this controller made a Service.
func ours(service *corev1.Service) bool {
	return service.Labels[multicluster.ManagedByLabel] == multicluster.ManagedBy && service.Labels[multicluster.ServiceNameLabel] != ""
}

// desiredService is the Service that stands for an import, given the one that
// is there now. What others have added to it stays.
func desiredService(existing *corev1.Service, serviceImport *multiclusterxv1beta1.ServiceImport, addresses variant) *corev1.Service {
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
	addresses.apply(service)
	spec.Selector = nil
	// The first family of a Service cannot change, so it gets all that the
	// cluster has; the import shows those that the exports have.
	spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyPreferDualStack)
	spec.Ports = servicePorts(wanted.Ports)
	spec.SessionAffinity = cmp.Or(wanted.SessionAffinity, corev1.ServiceAffinityNone)
	spec.SessionAffinityConfig = affinityConfig(spec.SessionAffinity, wanted.SessionAffinityConfig)
	spec.TrafficDistribution = knownDistribution(wanted.TrafficDistribution)
	if headless(serviceImport) {
		spec.ClusterIP = corev1.ClusterIPNone
	}
	spec.InternalTrafficPolicy = ptr.To(ptr.Deref(wanted.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster))
	return service
}

// affinityConfig is what the API makes of the import's, so that it is the same
// when it is read again.
func affinityConfig(affinity corev1.ServiceAffinity, wanted *corev1.SessionAffinityConfig) *corev1.SessionAffinityConfig {
	if affinity != corev1.ServiceAffinityClientIP {
		return nil
	}
	if wanted == nil || wanted.ClientIP == nil || wanted.ClientIP.TimeoutSeconds == nil {
		return &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To(corev1.DefaultClientIPServiceAffinitySeconds)}}
	}
	return wanted.DeepCopy()
}

func headless(serviceImport *multiclusterxv1beta1.ServiceImport) bool {
	return serviceImport.Spec.Type == multiclusterxv1beta1.Headless
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

// knownDistribution leaves out what this release's Services may not have: a
// member of a newer release must not keep the Service from being made.
func knownDistribution(distribution *string) *string {
	switch ptr.Deref(distribution, "") {
	case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode:
		return distribution
	}
	return nil
}

// mustReplace says whether a Service has to be made anew: one that has an IP
// cannot become headless, nor the other way round.
func mustReplace(existing *corev1.Service, serviceImport *multiclusterxv1beta1.ServiceImport) bool {
	return (existing.Spec.ClusterIP == corev1.ClusterIPNone) != headless(serviceImport)
}

// sameService says whether writing the Service would change nothing.
func sameService(existing, desired *corev1.Service) bool {
	return apiequality.Semantic.DeepEqual(existing.Labels, desired.Labels) && apiequality.Semantic.DeepEqual(existing.Spec, desired.Spec) &&
		existing.Annotations[multicluster.ClusterSetIPProblemAnnotation] == desired.Annotations[multicluster.ClusterSetIPProblemAnnotation]
}
