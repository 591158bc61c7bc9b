// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ServiceExport asks that the Service of the same name and namespace be
// consumable from every cluster of the ClusterSet.
type ServiceExport struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   ServiceExportSpec
	Status ServiceExportStatus
}

// ServiceExportSpec says what the import shall carry besides what the Service says.
type ServiceExportSpec struct {
	// ExportedLabels become the labels of the ServiceImport.
	ExportedLabels map[string]string
	// ExportedAnnotations become annotations of the ServiceImport.
	ExportedAnnotations map[string]string
}

// ServiceExportStatus is what the implementation has made of the export.
type ServiceExportStatus struct {
	// Conditions has at most one entry per type.
	Conditions []metav1.Condition
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ServiceExportList is a list of ServiceExports.
type ServiceExportList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []ServiceExport
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ServiceImport is a service of the ClusterSet as one importing cluster sees it.
type ServiceImport struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   ServiceImportSpec
	Status ServiceImportStatus
}

// ServiceImportType tells services with a virtual IP from those without.
type ServiceImportType string

const (
	// ClusterSetIP services are reached through a virtual IP.
	ClusterSetIP ServiceImportType = "ClusterSetIP"
	// Headless services have no virtual IP; their endpoints are found by DNS.
	Headless ServiceImportType = "Headless"
)

// ServiceImportSpec is the merge of all exports of the service.
type ServiceImportSpec struct {
	Ports                 []ServicePort
	IPs                   []string
	Type                  ServiceImportType
	SessionAffinity       corev1.ServiceAffinity
	SessionAffinityConfig *corev1.SessionAffinityConfig
	IPFamilies            []corev1.IPFamily
	InternalTrafficPolicy *corev1.ServiceInternalTrafficPolicy
	TrafficDistribution   *string
}

// ServicePort is one port of an imported service.
type ServicePort struct {
	Name        string
	Protocol    corev1.Protocol
	AppProtocol *string
	Port        int32
}

// ServiceImportStatus says where the import comes from and whether it can be used.
type ServiceImportStatus struct {
	// EndpointSliceObjects says whether the imported EndpointSlices exist as objects.
	EndpointSliceObjects EndpointSliceObjectsStatus
	// Clusters has one entry per exporting cluster.
	Clusters []ClusterStatus
	// Conditions has at most one entry per type.
	Conditions []metav1.Condition
}

// ClusterStatus names a cluster that exports the service.
type ClusterStatus struct {
	Cluster string
}

// EndpointSliceObjectsStatus says whether imported EndpointSlices exist as objects.
type EndpointSliceObjectsStatus string

const (
	// EndpointSliceObjectsPresent means that the slices can be read from the API.
	EndpointSliceObjectsPresent EndpointSliceObjectsStatus = "Present"
	// EndpointSliceObjectsAbsent means that there are none to be read.
	EndpointSliceObjectsAbsent EndpointSliceObjectsStatus = "Absent"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ServiceImportList is a list of ServiceImports.
type ServiceImportList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []ServiceImport
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterClaim is something that a cluster says of itself, above all who it
// is and which ClusterSet it belongs to.
type ClusterClaim struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec ClusterClaimSpec
}

// ClusterClaimSpec holds the value of a claim.
type ClusterClaimSpec struct {
	Value string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterClaimList is a list of ClusterClaims.
type ClusterClaimList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []ClusterClaim
}
