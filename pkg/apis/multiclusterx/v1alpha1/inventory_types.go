// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The kinds of the Cluster Inventory API, wire-compatible with
// sigs.k8s.io/cluster-inventory-api.

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterProfile represents a cluster of an inventory. All ClusterProfiles in a namespace
// are one inventory. If the namespace has the label multicluster.x-k8s.io/clusterset, they
// are the clusters of the ClusterSet with this name.
type ClusterProfile struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The label x-k8s.io/cluster-manager
	// is the name of the cluster manager. It is added if it is missing.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec describes the cluster.
	Spec ClusterProfileSpec `json:"spec"`
	// status is what the cluster manager observed.
	// +optional
	Status ClusterProfileStatus `json:"status,omitempty"`
}

// ClusterProfileSpec describes a cluster.
type ClusterProfileSpec struct {
	// displayName is a name of the cluster for people.
	// +optional
	DisplayName string `json:"displayName,omitempty"`
	// clusterManager is what maintains this ClusterProfile.
	ClusterManager ClusterManager `json:"clusterManager"`
}

// ClusterManager is what maintains a ClusterProfile.
type ClusterManager struct {
	// name is the name of the cluster manager. Must be a valid label value, since it is
	// also the value of the label x-k8s.io/cluster-manager.
	Name string `json:"name"`
}

// ClusterProfileStatus is what the cluster manager observed.
type ClusterProfileStatus struct {
	// conditions describe the state of the cluster: whether its control plane is
	// healthy (ControlPlaneHealthy), and others that the cluster manager defines.
	// +optional
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	// version contains the versions of the cluster.
	// +optional
	Version ClusterVersion `json:"version,omitempty"`
	// properties are the ClusterProperties of the cluster (KEP-2149), and others that
	// the cluster manager defines.
	// +optional
	// +patchStrategy=merge
	// +patchMergeKey=name
	// +listType=map
	// +listMapKey=name
	Properties []Property `json:"properties,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// accessProviders are ways to access the cluster.
	// +optional
	// +patchStrategy=merge
	// +patchMergeKey=name
	// +listType=map
	// +listMapKey=name
	AccessProviders []AccessProvider `json:"accessProviders,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
	// credentialProviders is the former name of accessProviders. Of two entries with
	// the same name, the one in accessProviders is used.
	//
	// Deprecated: use accessProviders.
	// +optional
	// +patchStrategy=merge
	// +patchMergeKey=name
	// +listType=map
	// +listMapKey=name
	CredentialProviders []AccessProvider `json:"credentialProviders,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
}

// ClusterVersion contains the versions of a cluster.
type ClusterVersion struct {
	// kubernetes is the version of Kubernetes.
	// +optional
	Kubernetes string `json:"kubernetes,omitempty"`
}

// Property is a named piece of information about a cluster.
type Property struct {
	// name is the name of the property. It has 1 to 253 characters.
	Name string `json:"name"`
	// value is the value of the property. It has 1 to 1024 characters.
	Value string `json:"value"`
	// lastObservedTime is when the property was last observed in the cluster.
	// +optional
	LastObservedTime *metav1.Time `json:"lastObservedTime,omitempty"`
}

// AccessProvider is a way to access a cluster.
type AccessProvider struct {
	// name is the name of the access provider. Clients choose a way to access the
	// cluster by this name, and have the credentials for it.
	Name string `json:"name"`
	// cluster is how the cluster is reached.
	// +optional
	Cluster Cluster `json:"cluster,omitempty"`
}

// Cluster is how a cluster is reached: a cluster of a kubeconfig, with the same fields.
type Cluster struct {
	// server is the address of the cluster (https://hostname:port).
	Server string `json:"server"`
	// tls-server-name is the name that the certificate of the server must have. It is the
	// hostname of the server if it is empty.
	// +optional
	TLSServerName string `json:"tls-server-name,omitempty"`
	// insecure-skip-tls-verify makes clients accept any certificate of the server.
	// +optional
	InsecureSkipTLSVerify bool `json:"insecure-skip-tls-verify,omitempty"`
	// certificate-authority is the path of a file with the certificate authority of the
	// server.
	// +optional
	CertificateAuthority string `json:"certificate-authority,omitempty"`
	// certificate-authority-data contains the PEM-encoded certificate authority of the
	// server. It takes precedence over certificate-authority.
	// +optional
	CertificateAuthorityData []byte `json:"certificate-authority-data,omitempty"`
	// proxy-url is the URL of a proxy through which the server is reached.
	// +optional
	ProxyURL string `json:"proxy-url,omitempty"`
	// disable-compression makes clients ask for responses without compression.
	// +optional
	DisableCompression bool `json:"disable-compression,omitempty"`
	// extensions are additional configuration. Credential plugins get the extension
	// with the name client.authentication.k8s.io/exec.
	// +optional
	// +listType=atomic
	Extensions []NamedExtension `json:"extensions,omitempty"`
}

// NamedExtension is configuration that only those understand who know its name.
type NamedExtension struct {
	// name is the name of the extension.
	Name string `json:"name"`
	// extension is any object. It is kept as it is.
	Extension runtime.RawExtension `json:"extension"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterProfileList is a list of ClusterProfiles.
type ClusterProfileList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items is the list of ClusterProfiles.
	Items []ClusterProfile `json:"items"`
}

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PlacementDecision is a set of clusters that a scheduler chose. A decision for more than
// 100 clusters consists of several PlacementDecisions with the same value of the label
// multicluster.x-k8s.io/decision-key. If their order matters, the label
// multicluster.x-k8s.io/decision-index numbers them, beginning with 0.
type PlacementDecision struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// decisions are the clusters that were chosen. There are at most 100; the list may be
	// empty.
	// +listType=atomic
	Decisions []ClusterDecision `json:"decisions"`
	// schedulerName is the name of the scheduler that made the decision.
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`
}

// ClusterDecision is a cluster that was chosen.
type ClusterDecision struct {
	// clusterProfileRef refers to the ClusterProfile of the cluster.
	ClusterProfileRef ClusterProfileReference `json:"clusterProfileRef"`
	// reason is why the cluster was chosen.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// ClusterProfileReference refers to a ClusterProfile.
type ClusterProfileReference struct {
	// name is the name of the ClusterProfile.
	Name string `json:"name"`
	// namespace is the namespace of the ClusterProfile. If it is empty, it is that of the
	// PlacementDecision.
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PlacementDecisionList is a list of PlacementDecisions.
type PlacementDecisionList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items is the list of PlacementDecisions.
	Items []PlacementDecision `json:"items"`
}
