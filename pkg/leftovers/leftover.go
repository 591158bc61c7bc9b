// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package leftovers

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// isLeftover reports whether the namespace of an object was deleted. namespace is the
// namespace that now has its name, or nil; cluster is the UID of this cluster.
//
// A namespace with the same name is another one only if its UID differs and it is
// younger than the object. One of the two is not enough: clocks differ, and the UID
// was recorded from a cache. An object that was restored from another cluster belongs
// to the namespace that has its name here, and so does one without a recorded UID, which
// only ServiceExports have.
func isLeftover(object metav1.Object, namespace *corev1.Namespace, cluster types.UID) bool {
	if object.GetDeletionTimestamp() != nil {
		return false // somebody deletes it already
	}
	if namespace == nil {
		return true
	}
	origin, known := multicluster.OriginOf(object.GetAnnotations())
	created := object.GetCreationTimestamp()
	return known && origin.Cluster == cluster && origin.Namespace != namespace.UID && created.Before(&namespace.CreationTimestamp)
}
