// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustersetip implements the rules for shared ClusterSet IPs: which cluster
// allocates the address of a service, which clusters adopt it, and which decision
// stands when two were made at the same time. It is pure: every cluster that sees the
// same exports comes to the same result, without coordination.
//
// The rules:
//   - The founding export decides: for an address that its cluster allocates, or for
//     none. All other clusters adopt and record the decision, so that it outlives the
//     founding export.
//   - Of two decisions about a service the older one stands (see [Decide]).
//   - A released address is not allocated to another service before the propagation
//     delay has passed. Neither does a cluster allocate that just started or joined,
//     since it may not know all addresses in use (see [Quarantine]). As long as changes
//     propagate within [PropagationDelay], no two services hold the same address.
//   - If they do nevertheless, the service with the older decision keeps the address
//     (see [Claims]).
//
// A decision lives as long as an export that recorded it. An export that has not
// recorded it does not keep it alive.
package clustersetip

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/precedence"
)

// Decision is what a cluster records about the address of a service.
type Decision = clusterset.ClusterSetIPDecision

// Export is what matters about one cluster's export of a service.
type Export struct {
	// Cluster is the ID of the exporting cluster.
	Cluster string
	// At is when the export took effect in this ClusterSet: when it was created, or
	// when its cluster joined if that was later. An earlier time would make a decision
	// for no address that follows from it look older than a decision that the other
	// clusters recorded before.
	At time.Time
	// Wants is whether the export requests a shared ClusterSet IP.
	Wants bool
	// Decision is what its cluster recorded, nil if nothing yet.
	Decision *Decision
}

// InForce returns the decision that applies in all clusters, nil while there is none:
// the oldest recorded decision, whatever the exports request by now. Without one, it is
// the decision for no address if the founding export requests none. All clusters derive
// that one by themselves, so that no cluster has to wait for it.
func InForce(exports []Export) *Decision {
	if held := oldest(exports); held != nil {
		return held
	}
	if first, found := founding(exports); found && !first.Wants {
		return NewDecision(first.Cluster, nil, first.At)
	}
	return nil
}

// Disagree returns the sorted IDs of the clusters whose request differs from the
// decision in force. It returns none while no decision is in force.
func Disagree(exports []Export, inForce *Decision) []string {
	if inForce == nil {
		return nil
	}
	var clusters []string
	for _, export := range exports {
		if export.Wants != (len(inForce.IPs) > 0) {
			clusters = append(clusters, export.Cluster)
		}
	}
	slices.Sort(clusters)
	return slices.Compact(clusters)
}

// Action is what a cluster has to do about its own export. At most one field is set.
type Action struct {
	// Record is the decision to record. If it is nil and no address is allocated, the
	// cluster records no decision and drops one that became void, see
	// [Claims.Standing].
	Record *Decision
	// Allocate is whether to allocate addresses and to record them in a [NewDecision]
	// of the age that [Since] returns. If that fails, the cluster records no decision
	// and tries again when addresses may have become available.
	Allocate bool
	// WaitFor is the ID of the cluster that has to decide first.
	WaitFor string
}

// Decide returns the action for the cluster self, which is among the exports. settled
// is false while the exports of other clusters may not be known completely, as after a
// restart: then a known decision is adopted, but no new one is made.
//
// The exports are those that [Claims.Standing] returns.
func Decide(self string, exports []Export, settled bool) Action {
	if !slices.ContainsFunc(exports, func(export Export) bool { return export.Cluster == self }) {
		return Action{}
	}
	if held := oldest(exports); held != nil {
		return Action{Record: held}
	}
	if !settled {
		return Action{}
	}
	first, _ := founding(exports)
	switch {
	case !first.Wants:
		// All clusters record this, not only the founding one, which may withdraw its
		// export before it does, or run a release that does not record.
		return Action{Record: InForce(exports)}
	case first.Cluster == self:
		return Action{Allocate: true}
	default:
		return Action{WaitFor: first.Cluster}
	}
}

// NewDecision returns a decision as it is recorded: in whole seconds, which is what
// other clusters read, so that all clusters order decisions in the same way.
//
// For allocated addresses since is the result of [Since].
func NewDecision(cluster string, ips []string, since time.Time) *Decision {
	return &Decision{IPs: slices.Clone(ips), DecidedBy: cluster, Since: metav1.NewTime(since.Truncate(time.Second))}
}

// Equal reports whether two decisions are the same. Either may be nil.
func Equal(a, b *Decision) bool {
	if a == nil || b == nil {
		return a == b
	}
	return compare(a, b) == 0
}

// compare orders decisions by precedence. A cluster that left and joined again may have
// made two decisions at the same time, so their addresses are the last criterion: what
// matters is that all clusters prefer the same one.
func compare(a, b *Decision) int {
	rank := func(d *Decision) precedence.Rank {
		return precedence.Rank{Since: d.Since.Truncate(time.Second), Cluster: d.DecidedBy}
	}
	return cmp.Or(precedence.Compare(rank(a), rank(b)), slices.Compare(a.IPs, b.IPs))
}

// oldest returns a copy of the oldest recorded decision, nil if there is none.
func oldest(exports []Export) *Decision {
	var held *Decision
	for _, export := range exports {
		if export.Decision != nil && (held == nil || compare(export.Decision, held) < 0) {
			held = export.Decision
		}
	}
	return held.DeepCopy()
}

// founding returns the export that took effect first.
func founding(exports []Export) (first Export, found bool) {
	if len(exports) == 0 {
		return Export{}, false
	}
	return slices.MinFunc(exports, func(a, b Export) int {
		return precedence.Compare(precedence.Rank{Since: a.At, Cluster: a.Cluster}, precedence.Rank{Since: b.At, Cluster: b.Cluster})
	}), true
}
