// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterProfile represents a cluster of an inventory. All ClusterProfiles in a namespace
// are one inventory.
type ClusterProfile struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   ClusterProfileSpec
	Status ClusterProfileStatus
}

// ClusterProfileSpec describes a cluster.
type ClusterProfileSpec struct {
	DisplayName    string
	ClusterManager ClusterManager
}

// ClusterManager is what maintains a ClusterProfile.
type ClusterManager struct {
	// Name is also the value of ClusterManagerLabel.
	Name string
}

// ClusterProfileStatus is what the cluster manager observed.
type ClusterProfileStatus struct {
	// Conditions has at most one entry per type.
	Conditions []metav1.Condition
	Version    ClusterVersion
	// Properties has at most one entry per name.
	Properties []Property
	// AccessProviders has at most one entry per name.
	AccessProviders []AccessProvider
	// CredentialProviders is the former name of AccessProviders, which take precedence. It
	// has at most one entry per name.
	CredentialProviders []AccessProvider
}

// ClusterVersion contains the versions of a cluster.
type ClusterVersion struct {
	Kubernetes string
}

// Property is a named piece of information about a cluster: one of its ClusterProperties,
// or one that the cluster manager defines.
type Property struct {
	Name             string
	Value            string
	LastObservedTime *metav1.Time
}

// AccessProvider is a way to access a cluster. Clients choose one by its name, and have the
// credentials for it.
type AccessProvider struct {
	Name    string
	Cluster Cluster
}

// Cluster is how a cluster is reached: a cluster of a kubeconfig.
type Cluster struct {
	Server                   string
	TLSServerName            string
	InsecureSkipTLSVerify    bool
	CertificateAuthority     string
	CertificateAuthorityData []byte
	ProxyURL                 string
	DisableCompression       bool
	Extensions               []NamedExtension
}

// NamedExtension is configuration that only those understand who know its name.
type NamedExtension struct {
	Name      string
	Extension runtime.RawExtension
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterProfileList is a list of ClusterProfiles.
type ClusterProfileList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []ClusterProfile
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PlacementDecision is a set of clusters that a scheduler chose, or a slice of it.
type PlacementDecision struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Decisions     []ClusterDecision
	SchedulerName string
}

// ClusterDecision is a cluster that was chosen.
type ClusterDecision struct {
	ClusterProfileRef ClusterProfileReference
	Reason            string
}

// ClusterProfileReference refers to a ClusterProfile.
type ClusterProfileReference struct {
	Name string
	// Namespace is that of the referring object if it is empty.
	Namespace string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PlacementDecisionList is a list of PlacementDecisions.
type PlacementDecisionList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []PlacementDecision
}
