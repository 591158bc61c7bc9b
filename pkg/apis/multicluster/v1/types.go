// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterClaim is something that a cluster says of itself. Two names are well
// known: id.k8s.io is who the cluster is, and clusterset.k8s.io is the
// ClusterSet that it belongs to.
type ClusterClaim struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. The name says what is claimed.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec holds the value of the claim.
	// +optional
	Spec ClusterClaimSpec `json:"spec,omitempty"`
}

// ClusterClaimSpec holds the value of a claim.
type ClusterClaimSpec struct {
	// value is what is claimed, at most 128000 bytes.
	Value string `json:"value"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterClaimList is a list of ClusterClaims.
type ClusterClaimList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the ClusterClaims.
	Items []ClusterClaim `json:"items"`
}
