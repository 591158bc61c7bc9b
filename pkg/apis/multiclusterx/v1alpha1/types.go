// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ServiceExport declares that the Service with the same name and namespace as
// this export should be consumable from other clusters. Deleting the
// ServiceExport withdraws the Service from the ClusterSet.
type ServiceExport struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name must be the name of
	// the Service to export.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec defines what is exported in addition to the Service itself.
	// +optional
	Spec ServiceExportSpec `json:"spec,omitempty"`
	// status describes the current state of the export. Written by the
	// implementation.
	// +optional
	Status ServiceExportStatus `json:"status,omitempty"`
}

// ServiceExportSpec describes what is exported in addition to the Service
// itself. Labels and annotations of the Service and of the ServiceExport are
// not exported, only the ones listed here.
type ServiceExportSpec struct {
	// exportedLabels are the labels of the ServiceImport. If clusters export
	// different sets of labels, the set of the oldest export is used.
	// +optional
	ExportedLabels map[string]string `json:"exportedLabels,omitempty"`
	// exportedAnnotations are annotations of the ServiceImport. If clusters
	// export different sets of annotations, the set of the oldest export is used.
	// +optional
	ExportedAnnotations map[string]string `json:"exportedAnnotations,omitempty"`
}

// ServiceExportStatus describes the current state of an export.
type ServiceExportStatus struct {
	// conditions describe whether the export is Valid, whether it is Ready, and
	// whether it is in Conflict with exports of other clusters.
	// +optional
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ServiceExportList is a list of ServiceExports.
type ServiceExportList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items is the list of ServiceExports.
	Items []ServiceExport `json:"items"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ServiceImport describes a service of the ClusterSet as seen from this
// cluster. ServiceImports are computed from the ServiceExports of all member
// clusters and are read-only.
type ServiceImport struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is the result of merging all exports of the service.
	// +optional
	Spec ServiceImportSpec `json:"spec,omitempty"`
	// status describes the exporting clusters and whether the import is ready.
	// +optional
	Status ServiceImportStatus `json:"status,omitempty"`
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
	// ports is the union of the ports of all exports.
	// +listType=atomic
	Ports []ServicePort `json:"ports"`
	// ips are the virtual IPs of the service in this cluster, at most one per IP
	// family, in the order of ipFamilies. Empty for Headless imports.
	// +optional
	// +listType=atomic
	IPs []string `json:"ips,omitempty"`
	// type is the type of the import. Must be ClusterSetIP or Headless.
	Type ServiceImportType `json:"type"`
	// sessionAffinity is used to maintain session affinity. Must be ClientIP or
	// None. Ignored for Headless imports.
	// +optional
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`
	// sessionAffinityConfig contains the configuration of the session affinity.
	// +optional
	SessionAffinityConfig *corev1.SessionAffinityConfig `json:"sessionAffinityConfig,omitempty"`
	// ipFamilies are the IP families of the import, the primary family first.
	// +optional
	// +listType=atomic
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`
	// internalTrafficPolicy describes how nodes distribute traffic to the
	// service: to all endpoints (Cluster) or only to endpoints on the same node
	// (Local).
	// +optional
	InternalTrafficPolicy *corev1.ServiceInternalTrafficPolicy `json:"internalTrafficPolicy,omitempty"`
	// trafficDistribution offers a way to express preferences for how traffic is
	// distributed to the endpoints, for example PreferSameZone. Unset means no
	// preference.
	// +optional
	TrafficDistribution *string `json:"trafficDistribution,omitempty"`
}

// ServicePort represents a port of an imported service.
type ServicePort struct {
	// name is the name of the port. Must be a DNS label, unique among the ports
	// of the import. Optional if the import has only one port.
	// +optional
	Name string `json:"name,omitempty"`
	// protocol is the IP protocol of the port. Must be TCP, UDP, or SCTP.
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty"`
	// appProtocol is a hint for the application protocol of the port, for example
	// http or kubernetes.io/h2c.
	// +optional
	AppProtocol *string `json:"appProtocol,omitempty"`
	// port is the port number on which the service is exposed.
	Port int32 `json:"port"`
}

// ServiceImportStatus describes the current state of an import.
type ServiceImportStatus struct {
	// endpointSliceObjects describes whether the imported EndpointSlices can be
	// read from the API: Present or Absent.
	// +optional
	EndpointSliceObjects EndpointSliceObjectsStatus `json:"endpointSliceObjects,omitempty"`
	// clusters is the list of clusters that export the service.
	// +optional
	// +patchStrategy=merge
	// +patchMergeKey=cluster
	// +listType=map
	// +listMapKey=cluster
	Clusters []ClusterStatus `json:"clusters,omitempty" patchStrategy:"merge" patchMergeKey:"cluster"`
	// conditions describe whether the import is Ready, and whether the exporting
	// members are reachable (MembersReachable).
	// +optional
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// ClusterStatus describes an exporting cluster.
type ClusterStatus struct {
	// cluster is the ID of the exporting cluster. Must be an RFC 1123 label.
	Cluster string `json:"cluster"`
}

// EndpointSliceObjectsStatus describes whether imported EndpointSlices exist as
// API objects.
type EndpointSliceObjectsStatus string

const (
	// EndpointSliceObjectsPresent means that the imported EndpointSlices can be
	// read from the API.
	EndpointSliceObjectsPresent EndpointSliceObjectsStatus = "Present"
	// EndpointSliceObjectsAbsent means that the imported EndpointSlices are not
	// exposed through the API.
	EndpointSliceObjectsAbsent EndpointSliceObjectsStatus = "Absent"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ServiceImportList is a list of ServiceImports.
type ServiceImportList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items is the list of ServiceImports.
	Items []ServiceImport `json:"items"`
}
