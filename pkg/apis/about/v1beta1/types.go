// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=get,list,watch
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterProperty is a read-only view of a ClusterClaim (multicluster.k8s.io) of
// this cluster. The cluster ID is available under the names id.k8s.io and
// cluster.clusterset.k8s.io.
type ClusterProperty struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec contains the value of the property.
	// +optional
	Spec ClusterPropertySpec `json:"spec,omitempty"`
}

// ClusterPropertySpec contains the value of the property.
type ClusterPropertySpec struct {
	// value is the value of the ClusterClaim.
	Value string `json:"value"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterPropertyList is a list of ClusterProperties.
type ClusterPropertyList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items is the list of ClusterProperties.
	// +listType=atomic
	Items []ClusterProperty `json:"items"`
}
