// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import "slices"

// NewAudience returns the audience of some clusters, given by their IDs.
func NewAudience(clusters ...string) *Audience {
	clusters = slices.Clone(clusters)
	slices.Sort(clusters)
	return &Audience{Clusters: slices.Compact(clusters)}
}

// Includes reports whether a cluster belongs to the audience. If there is none, all do.
func (a *Audience) Includes(cluster string) bool {
	if a == nil {
		return true
	}
	_, found := slices.BinarySearch(a.Clusters, cluster)
	return found
}

// Same reports whether two audiences are the same.
func (a *Audience) Same(other *Audience) bool {
	if a == nil || other == nil {
		return a == other
	}
	return slices.Equal(a.Clusters, other.Clusters)
}

// AudienceOf returns the audience of an ExportedService or ExportedEndpointSlice, nil for
// everything else.
func AudienceOf(object any) *Audience {
	switch object := object.(type) {
	case *ExportedService:
		return object.Spec.Audience
	case *ExportedEndpointSlice:
		return object.Spec.Audience
	}
	return nil
}
