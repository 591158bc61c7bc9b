// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ServiceExport asks that the Service of the same name and namespace be
// consumable from every cluster of the ClusterSet. Deleting it ends that.
type ServiceExport struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name is that of the
	// Service to export.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec says what the import carries besides what the Service itself says.
	// +optional
	Spec ServiceExportSpec `json:"spec,omitempty"`
	// status is written by the implementation.
	// +optional
	Status ServiceExportStatus `json:"status,omitempty"`
}

// ServiceExportSpec says what the import carries besides what the Service
// itself says. Labels and annotations of the Service or of the ServiceExport
// are not exported; only those named here are.
type ServiceExportSpec struct {
	// exportedLabels become labels of the ServiceImport. When several clusters
	// export different sets, the oldest export's set is used.
	// +optional
	ExportedLabels map[string]string `json:"exportedLabels,omitempty"`
	// exportedAnnotations become annotations of the ServiceImport. When several
	// clusters export different sets, the oldest export's set is used.
	// +optional
	ExportedAnnotations map[string]string `json:"exportedAnnotations,omitempty"`
}

// ServiceExportStatus is what the implementation has made of the export.
type ServiceExportStatus struct {
	// conditions tell whether the export is Valid, whether it is Ready, and
	// whether it is in Conflict with the exports of other clusters.
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
	// items are the ServiceExports.
	Items []ServiceExport `json:"items"`
}

// +genclient
// +genclient:onlyVerbs=get,list,watch
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ServiceImport is a service of the ClusterSet as this cluster sees it. It is
// computed from the ServiceExports of all member clusters whenever it is
// read; nobody can write it.
type ServiceImport struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is the merge of all exports of the service.
	// +optional
	Spec ServiceImportSpec `json:"spec,omitempty"`
	// status says where the import comes from and whether it can be used.
	// +optional
	Status ServiceImportStatus `json:"status,omitempty"`
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
	// ports are the union of the exporters' ports.
	// +listType=atomic
	Ports []ServicePort `json:"ports"`
	// ips are the virtual IPs, at most one per IP family and in the order of
	// ipFamilies. A Headless import has none.
	// +optional
	// +listType=atomic
	IPs []string `json:"ips,omitempty"`
	// type is ClusterSetIP or Headless.
	Type ServiceImportType `json:"type"`
	// sessionAffinity is ClientIP or None. It means nothing for a Headless import.
	// +optional
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`
	// sessionAffinityConfig is the configuration of the session affinity.
	// +optional
	SessionAffinityConfig *corev1.SessionAffinityConfig `json:"sessionAffinityConfig,omitempty"`
	// ipFamilies are the IP families of the import, the primary one first.
	// +optional
	// +listType=atomic
	IPFamilies []corev1.IPFamily `json:"ipFamilies,omitempty"`
	// internalTrafficPolicy says whether a node may send traffic to endpoints
	// of other nodes (Cluster) or only to its own (Local).
	// +optional
	InternalTrafficPolicy *corev1.ServiceInternalTrafficPolicy `json:"internalTrafficPolicy,omitempty"`
	// trafficDistribution is a preference for endpoints that are close, such as
	// PreferSameZone. Unset means no preference.
	// +optional
	TrafficDistribution *string `json:"trafficDistribution,omitempty"`
}

// ServicePort is one port of an imported service.
type ServicePort struct {
	// name is a DNS label, unique among the ports. It may be empty when there
	// is only one port.
	// +optional
	Name string `json:"name,omitempty"`
	// protocol is TCP, UDP or SCTP.
	// +optional
	Protocol corev1.Protocol `json:"protocol,omitempty"`
	// appProtocol hints at the protocol spoken on top, such as http or
	// kubernetes.io/h2c.
	// +optional
	AppProtocol *string `json:"appProtocol,omitempty"`
	// port is the port number.
	Port int32 `json:"port"`
}

// ServiceImportStatus says where the import comes from and whether it can be used.
type ServiceImportStatus struct {
	// endpointSliceObjects says whether the imported EndpointSlices can be read
	// from the API: Present or Absent.
	// +optional
	EndpointSliceObjects EndpointSliceObjectsStatus `json:"endpointSliceObjects,omitempty"`
	// clusters are the clusters that export the service.
	// +optional
	// +patchStrategy=merge
	// +patchMergeKey=cluster
	// +listType=map
	// +listMapKey=cluster
	Clusters []ClusterStatus `json:"clusters,omitempty" patchStrategy:"merge" patchMergeKey:"cluster"`
	// conditions tell whether the import is Ready, and why not.
	// +optional
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// ClusterStatus names a cluster that exports the service.
type ClusterStatus struct {
	// cluster is the id of the exporting cluster, an RFC 1123 label.
	Cluster string `json:"cluster"`
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
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ServiceImports.
	Items []ServiceImport `json:"items"`
}
