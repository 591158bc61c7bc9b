// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// OriginAnnotation on a ServiceExport is the Origin of the export. Only the server
// writes it.
const OriginAnnotation = ClusterSetKeyPrefix + "origin"

// Origin identifies the namespace in which an object was created. A namespace that
// is deleted and created again has the same name, but is another namespace.
type Origin struct {
	// Cluster is the UID of the namespace kube-system. If stored objects are
	// restored in another cluster, none of its namespaces has the UID Namespace.
	Cluster types.UID
	// Namespace is the UID of the namespace.
	Namespace types.UID
}

// String returns the value of the annotation.
func (o Origin) String() string { return string(o.Cluster) + "/" + string(o.Namespace) }

// OriginOf returns the origin in the annotations of an object, or false if it is
// unknown.
func OriginOf(annotations map[string]string) (Origin, bool) {
	cluster, namespace, found := strings.Cut(annotations[OriginAnnotation], "/")
	return Origin{types.UID(cluster), types.UID(namespace)}, found && cluster != "" && namespace != ""
}
