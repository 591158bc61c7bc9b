// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// DependsOn reports whether one of the clusters made a decision, or it was heard through
// one of them. The decision may be nil.
func DependsOn(decision *Decision, clusters sets.Set[string]) bool {
	return decision != nil && (clusters.Has(decision.DecidedBy) || slices.ContainsFunc(decision.AdoptedFrom, clusters.Has))
}

// provenance returns through which clusters a cluster heard of the decision of an export,
// the nearest first: through none if that is its own or that of the cluster that made the
// decision.
//
// The exporting cluster is always the nearest, whatever it says. If there are more than others
// accept, the farthest are left out: a cluster can make up any number of clusters that it
// heard of the decision through, and all of them are farther than itself.
func provenance(local Local, export Export) []string {
	switch export.Cluster {
	case local.Cluster:
		return export.Decision.AdoptedFrom
	case export.Decision.DecidedBy:
		return nil
	}
	through, seen := []string{export.Cluster}, sets.New(export.Cluster)
	for _, cluster := range export.Decision.AdoptedFrom {
		if !seen.Has(cluster) && len(through) < clusterset.MaxAdoptedFrom {
			through = append(through, cluster)
			seen.Insert(cluster)
		}
	}
	return through
}

// adopt returns the decision of an export as a cluster records it, nil if there is none.
func adopt(local Local, export *Export) *Decision {
	if export == nil {
		return nil
	}
	adopted := export.Decision.DeepCopy()
	adopted.AdoptedFrom = provenance(local, *export)
	return adopted
}

// verified returns a decision that does not depend on the clusters any longer through
// which it was heard, if the cluster that made it confirms it.
func verified(decision *Decision, exports []Export) *Decision {
	if made := recordedBy(decision.DecidedBy, exports); Equal(made, decision) {
		decision.AdoptedFrom = nil
	}
	return decision
}
