// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustersetip implements the rules for shared ClusterSet IPs: which cluster
// allocates the address of a service, which clusters adopt it, and which decision
// stands when two were made at the same time. It is pure, and clusters come to the same
// result without coordination.
//
// The rules:
//   - The founding export decides: for an address that its cluster allocates, or for
//     none. All other clusters adopt and record the decision, so that it outlives the
//     founding export.
//   - Of two decisions about a service that were made at the same time the older one
//     stands. Later, a cluster does not give up what it recorded, and one that recorded
//     nothing keeps the address that it serves for as long as an export has it (see
//     [InForce]): who made a decision, and when, is what the cluster says that exports
//     the service, and a member may lie.
//   - A released address is not allocated to another service before the propagation
//     delay has passed. Neither does a cluster allocate that just started or joined,
//     since it may not know all addresses in use (see [Quarantine]). As long as changes
//     propagate within [PropagationDelay], no two services hold the same address.
//   - If they do nevertheless, the service keeps the address of which the cluster itself
//     says that it made the decision, and then the one with the older decision, except that
//     no cluster gives up what it recorded long ago (see [Claims]).
//
// A decision lives as long as an export that recorded it. An export that has not
// recorded it does not keep it alive.
package clustersetip

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
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
	// Abstains is whether some clusters do not see the export: it takes no part, so that all
	// decide the same.
	Abstains bool
}

// Taking returns the exports that take part in the decision: all that are not restricted to some
// clusters. If all are, they take part, and request no address.
func Taking(exports []Export) []Export {
	taking := slices.DeleteFunc(slices.Clone(exports), func(export Export) bool { return export.Abstains })
	if len(taking) == 0 {
		return exports
	}
	return taking
}

// Local is what a cluster knows about a service besides the exports. The zero value is
// that of a cluster that neither exports nor imports the service.
type Local struct {
	// Cluster is the ID of the cluster.
	Cluster string
	// Imported is whether the cluster has a derived Service, and IPs are the shared
	// ClusterSet IPs of that.
	Imported bool
	IPs      []string
	// Allocations are the allocation CIDRs of all members, as far as they are known.
	Allocations Allocations
	// Now is the current time.
	Now time.Time
}

// NewLocal returns what a cluster knows about a service that has a derived Service in it,
// nil if there is none. A derived Service whose addresses are not assigned yet or not
// available says nothing about a decision.
func NewLocal(cluster string, derived *corev1.Service, allocations Allocations, now time.Time) Local {
	local := Local{Cluster: cluster, Allocations: allocations, Now: now}
	if derived == nil || derived.Spec.ClusterIP == corev1.ClusterIPNone {
		return local
	}
	for _, ingress := range derived.Status.LoadBalancer.Ingress {
		local.IPs = append(local.IPs, ingress.IP)
	}
	without := derived.Spec.Type == corev1.ServiceTypeClusterIP && derived.Annotations[multicluster.ClusterSetIPProblemAnnotation] == ""
	local.Imported = len(local.IPs) > 0 || without
	return local
}

// concurrency is how long after a decision another one may become known that was made
// at the same time: the clusters may not have known of each other's export.
const concurrency = 2 * PropagationDelay

// serves reports whether the derived Service has exactly the addresses of a decision.
func (l Local) serves(decision *Decision) bool {
	return l.Imported && slices.Equal(decision.IPs, l.IPs)
}

// MaxSkew is how far the clock of another cluster may be ahead.
const MaxSkew = 5 * time.Minute

// believes reports whether the decision of an export is believed: that of the cluster
// itself always is, and no other that was made in the future, which would not be settled
// until then.
func (l Local) believes(export Export) bool {
	return export.Cluster == l.Cluster || l.Allocations.Believes(export.Decision) && !l.inFuture(export.Decision)
}

// Holds reports whether an export keeps its addresses from other services: its decision is
// believed, or served in this cluster.
func (l Local) Holds(export Export) bool {
	return export.Decision != nil && (l.believes(export) || l.serves(export.Decision))
}

// Recorded reports whether the cluster recorded a decision so long ago that it keeps it.
func (l Local) Recorded(exports []Export) bool {
	own := recordedBy(l.Cluster, exports)
	return own != nil && l.settled(own)
}

// maxAwait is the longest time after which to look again at a decision that was made in
// the future: the clock of this cluster may be corrected earlier.
const maxAwait = time.Hour

// Awaited returns the cluster whose decision is the first to be believed that is not yet
// because it was made in the future, and when to look at it again. Nothing else may happen
// until then. The cluster is empty if there is none, or if a recorded decision applies already.
func Awaited(local Local, exports []Export) (cluster string, wait time.Duration) {
	for _, export := range exports {
		if export.Cluster == local.Cluster || export.Decision == nil || !local.inFuture(export.Decision) || !local.Allocations.Believes(export.Decision) {
			continue
		}
		if until := export.Decision.Since.Sub(local.Now) - MaxSkew; cluster == "" || until < wait {
			cluster, wait = export.Cluster, until
		}
	}
	if cluster == "" || prevailing(local, exports) != nil {
		return "", 0
	}
	return cluster, min(wait, maxAwait)
}

func (l Local) inFuture(decision *Decision) bool {
	return !l.Now.IsZero() && decision.Since.Sub(l.Now) > MaxSkew
}

// settled reports whether a decision is older than any that was made at the same time.
func (l Local) settled(decision *Decision) bool { return l.Now.Sub(decision.Since.Time) >= concurrency }

// InForce returns the decision that applies in a cluster, nil while there is none: a
// recorded decision, whatever the exports request by now. Without one, it is the decision
// for no address if the founding export requests none. All clusters derive that one by
// themselves, so that no cluster has to wait for it.
//
// What the cluster recorded stands unless it is so recent that another decision may have
// been made at the same time. Without a record, the cluster keeps the addresses that it
// serves as long as an export has them. Otherwise the oldest decision stands of those that
// are believed (see [Allocations]). So a member
// that makes up a decision does not change the address of a service that has one. Clusters
// that know the same exports agree if those agree.
func InForce(local Local, exports []Export) *Decision {
	if held := prevailing(local, exports); held != nil {
		return held
	}
	if first, found := founding(exports); found && !first.Wants {
		return NewDecision(first.Cluster, nil, first.At)
	}
	return nil
}

// prevailing returns a copy of the recorded decision that applies, nil if there is none.
func prevailing(local Local, exports []Export) *Decision {
	own := recordedBy(local.Cluster, exports)
	if local.Recorded(exports) {
		return verified(own.DeepCopy(), exports)
	}
	var all, served []Export
	for _, export := range exports {
		if export.Decision == nil {
			continue
		}
		if local.believes(export) {
			all = append(all, export)
		}
		if own == nil && local.serves(export.Decision) {
			served = append(served, export)
		}
	}
	if len(served) > 0 {
		return adopt(local, oldest(local, served))
	}
	return adopt(local, oldest(local, all))
}

// recordedBy returns the decision that a cluster recorded, nil if it has none.
func recordedBy(cluster string, exports []Export) *Decision {
	for _, export := range exports {
		if export.Cluster == cluster && export.Decision != nil {
			return export.Decision
		}
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

// Contradict returns the sorted IDs of the clusters that recorded other addresses than
// those of the decision in force. It returns none while the decision is so recent that
// clusters may be about to adopt it.
func Contradict(local Local, exports []Export, inForce *Decision) []string {
	if inForce == nil || !local.settled(inForce) {
		return nil
	}
	var clusters []string
	for _, export := range exports {
		if export.Decision != nil && !slices.Equal(export.Decision.IPs, inForce.IPs) {
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

// Decide returns the action for a cluster, which is among the exports. complete is false
// while the exports of other clusters may not be known completely, as after a restart:
// then a known decision is adopted, but no new one is made.
//
// The exports are those that [Claims.Standing] returns.
func Decide(local Local, exports []Export, complete bool) Action {
	if !slices.ContainsFunc(exports, func(export Export) bool { return export.Cluster == local.Cluster }) {
		return Action{}
	}
	if held := prevailing(local, exports); held != nil {
		return Action{Record: held}
	}
	if !complete {
		return Action{}
	}
	first, _ := founding(exports)
	switch {
	case !first.Wants:
		// All clusters record this, not only the founding one, which may withdraw its
		// export before it does, or run a release that does not record.
		return Action{Record: InForce(local, exports)}
	case first.Cluster == local.Cluster:
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

// SameIPs reports whether two decisions are for the same addresses. Either may be nil.
func SameIPs(a, b *Decision) bool {
	return a == nil && b == nil || a != nil && b != nil && slices.Equal(a.IPs, b.IPs)
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

// oldest returns the export with the oldest decision, and of several with that one the
// export through which the fewest clusters were heard. It returns nil if there is none.
func oldest(local Local, exports []Export) *Export {
	if len(exports) == 0 {
		return nil
	}
	first := slices.MinFunc(exports, func(a, b Export) int {
		return cmp.Or(compare(a.Decision, b.Decision), len(provenance(local, a))-len(provenance(local, b)), cmp.Compare(a.Cluster, b.Cluster))
	})
	return &first
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
