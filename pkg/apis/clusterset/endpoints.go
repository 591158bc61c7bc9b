// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// SameEndpoints reports whether endpoints are semantically equal and in the same order, as
// apiequality.Semantic does. All endpoints of a service are compared whenever one changes, and
// comparing them by reflection takes a hundred times as long.
func SameEndpoints(a, b []discoveryv1.Endpoint) bool {
	switch {
	case len(a) != len(b):
		return false
	case len(a) == 0 || &a[0] == &b[0]: // of copies of one object
		return true
	}
	for i := range a {
		if !sameEndpoint(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

func sameEndpoint(a, b *discoveryv1.Endpoint) bool {
	return slices.Equal(a.Addresses, b.Addresses) &&
		samePointer(a.Conditions.Ready, b.Conditions.Ready) &&
		samePointer(a.Conditions.Serving, b.Conditions.Serving) &&
		samePointer(a.Conditions.Terminating, b.Conditions.Terminating) &&
		samePointer(a.Hostname, b.Hostname) && samePointer(a.NodeName, b.NodeName) && samePointer(a.Zone, b.Zone) &&
		sameHints(a.Hints, b.Hints) &&
		// Neither exported nor imported endpoints have these.
		(a.TargetRef == b.TargetRef || apiequality.Semantic.DeepEqual(a.TargetRef, b.TargetRef)) &&
		(len(a.DeprecatedTopology)+len(b.DeprecatedTopology) == 0 || apiequality.Semantic.DeepEqual(a.DeprecatedTopology, b.DeprecatedTopology))
}

func samePointer[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func sameHints(a, b *discoveryv1.EndpointHints) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.ForZones, b.ForZones) && slices.Equal(a.ForNodes, b.ForNodes)
}
