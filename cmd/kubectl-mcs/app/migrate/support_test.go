// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/cluster"
)

// newSite returns a cluster with the CRD of ServiceExports, unless that is nil.
func newSite(crd *unstructured.Unstructured) *site {
	s := &site{Cluster: &cluster.Cluster{Context: "east"}, crds: map[string]*unstructured.Unstructured{}}
	if crd != nil {
		s.crds["serviceexports"] = crd
	}
	return s
}
