// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exportedendpointslice

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importedslice"
)

// redact returns a slice with the part of its endpoints that is imported. The names
// of nodes are of no use in another cluster, and none of its business.
func redact(object runtime.Object) runtime.Object {
	slice, ok := object.(*clusterset.ExportedEndpointSlice)
	if !ok {
		return object
	}
	redacted := *slice
	redacted.Spec.Endpoints = make([]discoveryv1.Endpoint, 0, len(slice.Spec.Endpoints))
	for _, endpoint := range slice.Spec.Endpoints {
		redacted.Spec.Endpoints = append(redacted.Spec.Endpoints, importedslice.Endpoint(endpoint))
	}
	return &redacted
}
