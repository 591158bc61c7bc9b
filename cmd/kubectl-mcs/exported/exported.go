// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package exported counts and describes what clusters export of a service.
package exported

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
)

// CountEndpoints returns how many endpoints of an export are ready for a port, and how many there are.
// Port 0 stands for any port, and no IP family for both.
func CountEndpoints(slices []clustersetv1alpha1.ExportedEndpointSlice, export *clustersetv1alpha1.ExportedServiceSpec, protocol corev1.Protocol, port int32, family corev1.IPFamily) (ready, total int) {
	for i := range slices {
		slice := &slices[i].Spec
		if slice.Cluster != export.Cluster || family != "" && string(slice.AddressType) != string(family) {
			continue
		}
		if _, ok := merge.TargetPort(export.Ports, slice.Ports, protocol, port); ok || port == 0 {
			ready += CountReady(slice.Endpoints)
			total += len(slice.Endpoints)
		}
	}
	return ready, total
}

// CountReady returns how many endpoints are ready.
func CountReady(endpoints []discoveryv1.Endpoint) int {
	count := 0
	for _, endpoint := range endpoints {
		if IsReady(endpoint) {
			count++
		}
	}
	return count
}

// IsReady reports whether an endpoint is ready. As the API specifies, an endpoint
// without this condition is ready.
func IsReady(endpoint discoveryv1.Endpoint) bool {
	return ptr.Deref(endpoint.Conditions.Ready, true)
}

// PortText describes a port, with its name if it has one.
func PortText(name string, number int32, protocol corev1.Protocol) string {
	text := fmt.Sprintf("%d/%s", number, cmp.Or(protocol, corev1.ProtocolTCP))
	if name != "" {
		text = name + ":" + text
	}
	return text
}
