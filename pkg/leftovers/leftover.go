// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package leftovers

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// isLeftover reports whether the namespace of an export was deleted. namespace is the
// namespace that now has its name, or nil; cluster is the UID of this cluster.
//
// A namespace with the same name is another one only if its UID differs and it is
// younger than the export. One of the two is not enough: clocks differ, and the UID
// was recorded from a cache. An export that was restored from another cluster belongs
// to the namespace that has its name here.
func isLeftover(export *multiclusterxv1beta1.ServiceExport, namespace *corev1.Namespace, cluster types.UID) bool {
	if export.DeletionTimestamp != nil {
		return false // somebody deletes it already
	}
	if namespace == nil {
		return true
	}
	origin, known := multicluster.OriginOf(export.Annotations)
	return known && origin.Cluster == cluster && origin.Namespace != namespace.UID &&
		export.CreationTimestamp.Before(&namespace.CreationTimestamp)
}
