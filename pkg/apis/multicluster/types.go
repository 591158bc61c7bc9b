// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ServiceExport declares that the Service with the same name and namespace should
// be consumable from other clusters.
type ServiceExport struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   ServiceExportSpec
	Status ServiceExportStatus
}

// ServiceExportSpec describes what is exported in addition to the Service itself.
type ServiceExportSpec struct {
	// ExportedLabels are the labels of the ServiceImport.
	ExportedLabels map[string]string
	// ExportedAnnotations are annotations of the ServiceImport.
	ExportedAnnotations map[string]string
}

// ServiceExportStatus describes the current state of an export.
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

// ServiceImport describes a service of the ClusterSet as seen from this cluster.
type ServiceImport struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   ServiceImportSpec
	Status ServiceImportStatus
}

// ServiceImportType designates the type of a ServiceImport.
type ServiceImportType string

const (
	// ClusterSetIP services are only accessible via the ClusterSet IP.
	ClusterSetIP ServiceImportType = "ClusterSetIP"
	// Headless services have no ClusterSet IP; clients discover the endpoints
	// through DNS.
	Headless ServiceImportType = "Headless"
)

// ServiceImportSpec is the result of merging all exports of the service.
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

// ServicePort represents a port of an imported service.
type ServicePort struct {
	Name        string
	Protocol    corev1.Protocol
	AppProtocol *string
	Port        int32
}

// ServiceImportStatus describes the current state of an import.
type ServiceImportStatus struct {
	// EndpointSliceObjects describes whether imported EndpointSlices exist as API
	// objects.
	EndpointSliceObjects EndpointSliceObjectsStatus
	// Clusters has one entry per exporting cluster.
	Clusters []ClusterStatus
	// Conditions has at most one entry per type.
	Conditions []metav1.Condition
}

// ClusterStatus describes an exporting cluster.
type ClusterStatus struct {
	Cluster string
}

// EndpointSliceObjectsStatus describes whether imported EndpointSlices exist as
// API objects.
type EndpointSliceObjectsStatus string

const (
	// EndpointSliceObjectsPresent means that the imported EndpointSlices can be read
	// from the API.
	EndpointSliceObjectsPresent EndpointSliceObjectsStatus = "Present"
	// EndpointSliceObjectsAbsent means that the imported EndpointSlices are not
	// exposed through the API.
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

// ClusterClaim is a named piece of information about this cluster, such as its ID
// and the ClusterSet that it belongs to.
type ClusterClaim struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec ClusterClaimSpec
}

// ClusterClaimSpec contains the value of the claim.
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
