// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=get,list,watch
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterProperty shows a ClusterClaim (multicluster.k8s.io) of this cluster
// and can only be read. The cluster's id is shown under the names id.k8s.io
// and cluster.clusterset.k8s.io.
type ClusterProperty struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is what is claimed.
	// +optional
	Spec ClusterPropertySpec `json:"spec,omitempty"`
}

// ClusterPropertySpec holds the value of a property.
type ClusterPropertySpec struct {
	// value is that of the claim.
	Value string `json:"value"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterPropertyList is a list of ClusterProperties.
type ClusterPropertyList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the properties.
	// +listType=atomic
	Items []ClusterProperty `json:"items"`
}
