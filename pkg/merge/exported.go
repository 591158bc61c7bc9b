// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// FromExported returns the Export of an ExportedService.
func FromExported(service *clusterset.ExportedService) Export {
	spec := &service.Spec
	since := spec.Since().Time
	export := Export{
		Cluster: spec.Cluster, Since: since, Created: spec.ExportedAt.Time,
		Labels: spec.ExportedLabels, Annotations: spec.ExportedAnnotations,
		IP: clustersetip.Export{Cluster: spec.Cluster, At: since, Wants: spec.UseClusterSetIP, Decision: spec.ClusterSetIP},
		Spec: multicluster.ServiceImportSpec{
			Type:                  multicluster.ServiceImportType(spec.Type),
			SessionAffinity:       spec.SessionAffinity,
			SessionAffinityConfig: spec.SessionAffinityConfig,
			IPFamilies:            spec.IPFamilies,
			InternalTrafficPolicy: spec.InternalTrafficPolicy,
			TrafficDistribution:   spec.TrafficDistribution,
		},
	}
	if spec.Audience != nil { // whatever it says
		export.IP = clustersetip.Export{Cluster: spec.Cluster, At: since, Abstains: true}
	}
	export.Preference.MinReady = spec.PreferenceMinReady
	for _, tier := range spec.ClusterPreference {
		export.Preference.Tiers = append(export.Preference.Tiers, clusterpreference.Tier(tier))
	}
	for _, port := range spec.Ports {
		export.Spec.Ports = append(export.Spec.Ports, multicluster.ServicePort(port))
	}
	return export
}

// FromV1alpha1 returns the Export of an ExportedService that was read from the API.
func FromV1alpha1(service *clustersetv1alpha1.ExportedService) Export {
	var hub clusterset.ExportedService
	// The conversion copies identical structures and cannot fail.
	_ = clustersetv1alpha1.Convert_v1alpha1_ExportedService_To_clusterset_ExportedService(service, &hub, nil)
	return FromExported(&hub)
}

// V1beta1Spec returns the spec of the result for clients that use versioned
// types.
func (r Result) V1beta1Spec() multiclusterxv1beta1.ServiceImportSpec {
	var spec multiclusterxv1beta1.ServiceImportSpec
	// The conversion copies identical structures and cannot fail.
	_ = multiclusterxv1beta1.Convert_multicluster_ServiceImportSpec_To_v1beta1_ServiceImportSpec(&r.Spec, &spec, nil)
	return spec
}
