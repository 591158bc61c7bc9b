// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package about

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterIDProperty is the upstream name of the property with the cluster ID.
const ClusterIDProperty = "cluster.clusterset.k8s.io"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterProperty is a read-only view of a ClusterClaim.
type ClusterProperty struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec ClusterPropertySpec
}

// ClusterPropertySpec contains the value of the property.
type ClusterPropertySpec struct {
	Value string
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterPropertyList is a list of ClusterProperties.
type ClusterPropertyList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []ClusterProperty
}
