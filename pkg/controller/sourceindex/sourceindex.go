// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sourceindex indexes what clusters export, and what is imported from them, by the
// labels of the objects.
package sourceindex

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

const (
	// ByImport indexes objects by the import that they belong to, as namespace/name.
	ByImport = "import"
	// ByCluster indexes objects by their source cluster.
	ByCluster = "cluster"
)

// Indexers returns both indexes.
func Indexers() cache.Indexers {
	return cache.Indexers{
		ByImport: func(object any) ([]string, error) {
			return index(object, ImportName, func(namespace, name string) string { return namespace + "/" + name })
		},
		ByCluster: func(object any) ([]string, error) {
			return index(object, sourceCluster, func(_, cluster string) string { return cluster })
		},
	}
}

// ImportName returns the name of the import that an object with these labels belongs to, or
// "" if it belongs to none.
func ImportName(labels map[string]string) string {
	return cmp.Or(labels[multicluster.ServiceNameLabel], labels[multicluster.DerivedFromLabel])
}

func sourceCluster(labels map[string]string) string { return labels[multicluster.SourceClusterLabel] }

func index(object any, value func(labels map[string]string) string, key func(namespace, value string) string) ([]string, error) {
	metadata, ok := object.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", object)
	}
	if value := value(metadata.GetLabels()); value != "" {
		return []string{key(metadata.GetNamespace(), value)}, nil
	}
	return nil, nil
}
