// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustersetip decides about one IP for a service in the whole
// ClusterSet: who allocates it, who adopts it and which one stands when two
// were made at the same time. It is pure: every cluster that knows the same
// exports comes to the same answer, without asking anybody.
//
// The rules:
//   - The first export to take effect decides, for an IP that its cluster
//     allocates or for none. Everybody else adopts that and remembers it, so
//     that it outlives the cluster that made it.
//   - Of two decisions about a service the older stands (see [Decide]).
//   - No address is given to a service for as long as news take after it was held
//     for another one, nor by a cluster that has just started or joined, which
//     may not have heard everything (see [Quarantine]). So while news get around
//     in time ([PropagationDelay]), no two services ever hold one address.
//   - When they did not, and two services hold one address, the one with the older
//     decision keeps it (see [Claims]).
//
// A decision lives for as long as an export that holds to it. An export that
// has not seen it yet does not keep it alive: nobody could tell it anymore.
package clustersetip

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/precedence"
)

// Decision is what a cluster holds to.
type Decision = clusterset.ClusterSetIPDecision

// Export is one cluster's export of a service, as far as its IP goes.
type Export struct {
	// Cluster is the id of the exporting cluster.
	Cluster string
	// At is when the export took effect in this ClusterSet: when it was made, or
	// when its cluster became a member if that was later. If it were older than
	// the membership, a decision for none that follows from it would look older
	// than one that the others have held to for long.
	At time.Time
	// Wants is whether it asks for one IP in all clusters.
	Wants bool
	// Decision is what its cluster holds to, nil if nothing yet.
	Decision *Decision
}

// InForce is the decision that everybody should hold to, nil while there is
// none: the oldest that anybody holds to, whatever anybody wants by now.
// Failing that, it is the one for none that follows from the first export, if
// that does not want an IP. All clusters can tell that one by themselves, so
// nobody has to wait for it.
func InForce(exports []Export) *Decision {
	if held := oldest(exports); held != nil {
		return held
	}
	if first, found := firstOf(exports); found && !first.Wants {
		return NewDecision(first.Cluster, nil, first.At)
	}
	return nil
}

// Disagree are the clusters whose wish is not what is in force, sorted. While
// nothing is in force there is nothing to disagree with.
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

// Action is what a cluster should do about its own export. At most one of its
// fields is set.
type Action struct {
	// Record is what to hold to. If it is nil, and nothing was allocated, the
	// cluster holds to nothing: it gives up what another service took, see
	// [Claims.Standing].
	Record *Decision
	// Allocate is whether to allocate addresses and to record [NewDecision] with
	// them, as old as [Since] says. If that fails, the cluster holds to nothing and
	// tries again when addresses may have become free.
	Allocate bool
	// WaitFor is the id of the cluster that has to decide first.
	WaitFor string
}

// Decide decides for the cluster self, which is among the exports. settled is
// false while it may not have heard all others yet, as after a restart: then
// nothing new is decided, but a decision that is seen is adopted.
//
// The exports should be those that [Claims.Standing] returns.
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
	first, _ := firstOf(exports)
	switch {
	case !first.Wants:
		// Not only the first records this: it may go before it does, or be of a
		// release that does not record.
		return Action{Record: InForce(exports)}
	case first.Cluster == self:
		return Action{Allocate: true}
	default:
		return Action{WaitFor: first.Cluster}
	}
}

// NewDecision is a decision as it is recorded: in whole seconds, since that is
// what others read, and nobody should see another order of decisions than the
// cluster that made one.
//
// For allocated IPs since is what [Since] says.
func NewDecision(cluster string, ips []string, since time.Time) *Decision {
	return &Decision{IPs: slices.Clone(ips), DecidedBy: cluster, Since: metav1.NewTime(since.Truncate(time.Second))}
}

// Equal tells whether two decisions, of which any may be nil, are the same one.
func Equal(a, b *Decision) bool {
	if a == nil || b == nil {
		return a == b
	}
	return compare(a, b) == 0
}

// compare orders decisions, the one that stands first. A cluster that left and
// came back can have made two at one time, so their IPs count in the end: all
// that matters is that everybody prefers the same.
func compare(a, b *Decision) int {
	rank := func(d *Decision) precedence.Rank {
		return precedence.Rank{Since: d.Since.Truncate(time.Second), Cluster: d.DecidedBy}
	}
	return cmp.Or(precedence.Compare(rank(a), rank(b)), slices.Compare(a.IPs, b.IPs))
}

// oldest is a copy of the oldest decision that anybody holds to, nil if there
// is none.
func oldest(exports []Export) *Decision {
	var held *Decision
	for _, export := range exports {
		if export.Decision != nil && (held == nil || compare(export.Decision, held) < 0) {
			held = export.Decision
		}
	}
	return held.DeepCopy()
}

func firstOf(exports []Export) (first Export, found bool) {
	if len(exports) == 0 {
		return Export{}, false
	}
	return slices.MinFunc(exports, func(a, b Export) int {
		return precedence.Compare(precedence.Rank{Since: a.At, Cluster: a.Cluster}, precedence.Rank{Since: b.At, Cluster: b.Cluster})
	}), true
}
