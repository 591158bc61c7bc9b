// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/exported"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
)

// endpointsReport is the number of endpoints for a port of the import in one IP
// family. A service without ports has one report with port 0.
type endpointsReport struct {
	Name     string          `json:"name,omitempty"`
	Protocol corev1.Protocol `json:"protocol,omitempty"`
	Port     int32           `json:"port,omitempty"`
	IPFamily string          `json:"ipFamily"`
	// Used is false for an IP family that the import does not have.
	Used bool `json:"used"`
	// Clusters are all exporting clusters, sorted by precedence.
	Clusters []clusterEndpoints `json:"clusters"`
}

type clusterEndpoints struct {
	Cluster string `json:"cluster"`
	// Served is false if the cluster does not export the port.
	Served bool `json:"served"`
	Ready  int  `json:"ready"`
	Total  int  `json:"total"`
}

// countEndpoints counts the endpoints by port, IP family and cluster.
func countEndpoints(facts Facts, merged multiclusterxv1beta1.ServiceImportSpec) []endpointsReport {
	ports := merged.Ports
	if len(ports) == 0 {
		ports = []multiclusterxv1beta1.ServicePort{{}}
	}
	used := merged.IPFamilies
	if facts.ServiceImport != nil && len(facts.ServiceImport.Spec.IPFamilies) > 0 {
		used = facts.ServiceImport.Spec.IPFamilies
	}
	var reports []endpointsReport
	for _, port := range ports {
		for _, family := range allFamilies(facts, merged) {
			report := endpointsReport{Name: port.Name, Protocol: port.Protocol, Port: port.Port, IPFamily: string(family)}
			report.Used = len(used) == 0 || slices.Contains(used, family)
			for i := range facts.Exports {
				report.Clusters = append(report.Clusters, countCluster(facts, &facts.Exports[i].Spec, port, family))
			}
			reports = append(reports, report)
		}
	}
	return reports
}

func countCluster(facts Facts, export *clustersetv1alpha1.ExportedServiceSpec, port multiclusterxv1beta1.ServicePort, family corev1.IPFamily) clusterEndpoints {
	count := clusterEndpoints{Cluster: export.Cluster, Served: port.Port == 0 || merge.ServingPort(export.Ports, port.Protocol, port.Port) != nil}
	count.Ready, count.Total = exported.CountEndpoints(facts.Slices, export, port.Protocol, port.Port, family)
	return count
}

// allFamilies returns the IP families of the import, followed by those that only
// some clusters have.
func allFamilies(facts Facts, merged multiclusterxv1beta1.ServiceImportSpec) []corev1.IPFamily {
	families := slices.Clone(merged.IPFamilies)
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		if !slices.Contains(families, family) && slices.ContainsFunc(facts.Slices, func(slice clustersetv1alpha1.ExportedEndpointSlice) bool {
			return string(slice.Spec.AddressType) == string(family)
		}) {
			families = append(families, family)
		}
	}
	return families
}
