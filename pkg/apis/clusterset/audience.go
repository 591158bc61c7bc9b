// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import (
	"slices"
	"strings"
)

// audienceSeparator is no part of any cluster ID.
const audienceSeparator = ","

// NewAudience returns the audience of some clusters, given by their IDs.
func NewAudience(clusters ...string) *Audience {
	clusters = slices.Clone(clusters)
	slices.Sort(clusters)
	return JoinAudience(slices.Compact(clusters))
}

// JoinAudience returns the audience of clusters that are sorted, as they are: validation finds
// those that are not.
func JoinAudience(clusters []string) *Audience {
	if len(clusters) == 0 {
		return &Audience{audienceSeparator}
	}
	return &Audience{audienceSeparator + strings.Join(clusters, audienceSeparator) + audienceSeparator}
}

// Clusters returns the IDs of the clusters, sorted.
func (a *Audience) Clusters() []string {
	if a == nil || len(a.Joined) <= len(audienceSeparator) {
		return nil
	}
	return strings.Split(strings.TrimSuffix(strings.TrimPrefix(a.Joined, audienceSeparator), audienceSeparator), audienceSeparator)
}

// Len returns how many clusters there are.
func (a *Audience) Len() int {
	if a == nil {
		return 0
	}
	return max(0, strings.Count(a.Joined, audienceSeparator)-1)
}

// Includes reports whether a cluster belongs to the audience. If there is none, all do.
func (a *Audience) Includes(cluster string) bool {
	return a == nil || JoinedIncludes(a.Joined, cluster)
}

// JoinedIncludes reports whether a cluster belongs to a joined audience. Its clusters are sorted, and
// a list may be long, so it bisects the text between two separators.
func JoinedIncludes(joined, cluster string) bool {
	for low, high := 0, len(joined)-1; low < high; {
		start := strings.LastIndex(joined[:(low+high)/2+1], audienceSeparator)
		end := start + 1 + strings.Index(joined[start+1:], audienceSeparator)
		switch between := joined[start+1 : end]; {
		case between == cluster:
			return true
		case between < cluster:
			low = end
		default:
			high = start
		}
	}
	return false
}

// Intersection returns the audience of the clusters that belong to both.
func (a *Audience) Intersection(other *Audience) *Audience {
	switch {
	case a == nil || a.Same(other):
		return other
	case other == nil:
		return a
	}
	return JoinAudience(slices.DeleteFunc(a.Clusters(), func(cluster string) bool { return !other.Includes(cluster) }))
}

// Same reports whether two audiences are the same.
func (a *Audience) Same(other *Audience) bool {
	if a == nil || other == nil {
		return a == other
	}
	return a.Joined == other.Joined
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
