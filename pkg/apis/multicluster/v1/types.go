// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterClaim is a named piece of information about this cluster. Two names are
// well known: id.k8s.io is the ID of the cluster, and clusterset.k8s.io is the
// ClusterSet that the cluster belongs to.
type ClusterClaim struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name identifies the claim.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec contains the value of the claim.
	// +optional
	Spec ClusterClaimSpec `json:"spec,omitempty"`
}

// ClusterClaimSpec contains the value of the claim.
type ClusterClaimSpec struct {
	// value is the value of the claim. Must not exceed 128000 bytes.
	Value string `json:"value"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterClaimList is a list of ClusterClaims.
type ClusterClaimList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items is the list of ClusterClaims.
	Items []ClusterClaim `json:"items"`
}
