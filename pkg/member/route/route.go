// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package route chooses, for every cluster of the ClusterSet, the member whose
// feed is used for it: the cluster itself, or a hub that relays it.
package route

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// Scope is the set of other clusters that a member may relay.
type Scope struct {
	All bool
	IDs sets.Set[string]
}

// Any reports whether the member is a hub.
func (s Scope) Any() bool { return s.All || len(s.IDs) > 0 }

// Allows reports whether the member may relay a cluster.
func (s Scope) Allows(id string) bool { return s.All || s.IDs.Has(id) }

// Unnamed is the value of the label cluster in metrics for all clusters together that hubs relay
// without being named in a Secret (relay-for "*"): a hub could invent others all the time, and
// Prometheus would keep a series of each.
const Unnamed = "*"

// Source is an accepted member. Key identifies it.
type Source[K comparable] struct {
	Key       K
	ClusterID string
	Scope     Scope
	State     clusterset.MemberState
	// Relayed are the other entries in the members list of a hub, by cluster ID.
	Relayed map[string]*clusterset.Member
}

// Route leads to one cluster.
type Route[K comparable] struct {
	Cluster string
	// Source is the key of the source that is used.
	Source K
	// Path is the way from the cluster to this one.
	Path  []string
	State clusterset.MemberState
	// Entry is the hub's entry for the cluster; nil for a direct route.
	Entry *clusterset.Member
	// Seen is when a cluster that is lost to its hub, or with it, was last seen otherwise, and
	// Elsewhere whether another replica sees it now, and this one does not.
	Seen      time.Time
	Elsewhere bool
}

// Lost reports whether a cluster that a hub relays is lost as far as the hub is concerned.
func (r Route[K]) Lost() bool {
	return r.Entry != nil && (r.State == clusterset.MemberLost || !r.Seen.IsZero())
}

// Same reports whether two routes lead through the same source in the same state.
func (r Route[K]) Same(other Route[K]) bool {
	return r.Source == other.Source && r.State == other.State
}

// Choose returns one route per cluster. Everything about a cluster comes from
// one source, never from several: a source that lost contact would keep exports
// that the others know to be withdrawn. A direct member takes precedence over
// hubs, also while it is unreachable, but not before its feed has been read
// once; among hubs a connected one, then the shortest path. direct are the
// clusters for which no hub is used.
func Choose[K comparable](self identity.Cluster, direct map[string]bool, sources []Source[K]) map[string]Route[K] {
	routes := map[string]Route[K]{}
	for _, source := range sources {
		routes[source.ClusterID] = Route[K]{Cluster: source.ClusterID, Source: source.Key, Path: []string{source.ClusterID}, State: source.State}
	}
	for _, source := range sources {
		for id, entry := range source.Relayed {
			if direct[id] || !relayable(self, source.ClusterID, source.Scope, id, entry) {
				continue
			}
			candidate := Route[K]{
				Cluster: id, Source: source.Key, Path: append(slices.Clone(entry.Status.Path), source.ClusterID),
				State: stateThrough(source.State, entry.Status.State), Entry: entry,
			}
			if len(entry.Status.Path) == 0 {
				candidate.Path = []string{id, source.ClusterID}
			}
			if chosen, ok := routes[id]; !ok || chosen.Entry == nil || compare(candidate, chosen) < 0 {
				routes[id] = candidate
			}
		}
	}
	return routes
}

// stateThrough returns the state of a cluster that a hub relays. A cluster whose hub is lost is
// lost as well, also if the hub had not reached it yet.
func stateThrough(hub, cluster clusterset.MemberState) clusterset.MemberState {
	if hub == clusterset.MemberLost {
		return hub
	}
	return liveness.Worse(hub, cluster)
}

// relayable reports whether a hub's entry for another cluster may be used.
func relayable(self identity.Cluster, hub string, scope Scope, id string, entry *clusterset.Member) bool {
	status := &entry.Status
	return scope.Allows(id) && id != hub && id != self.ID &&
		len(validation.ValidateClusterID(id, nil)) == 0 &&
		(status.ClusterUID == "" || status.ClusterUID != self.UID) &&
		status.ClusterSet == self.ClusterSet &&
		liveness.Severity(status.State) >= 0 && status.State != clusterset.MemberRefused &&
		!slices.Contains(status.Path, self.ID) && !slices.Contains(status.Path, hub)
}

// ClaimedAt returns when the cluster of an entry claimed its ID, zero if unknown.
func ClaimedAt(entry *clusterset.Member) time.Time {
	if entry.Status.IDClaimedAt == nil {
		return time.Time{}
	}
	return entry.Status.IDClaimedAt.Time
}

// compare orders the preferred of two relayed routes first. If hubs know two
// clusters by one ID, it is the route to the cluster that keeps the ID.
func compare[K comparable](a, b Route[K]) int {
	if one, other := a.Entry.Status.ClusterUID, b.Entry.Status.ClusterUID; one != other && one != "" && other != "" {
		return identity.CompareClaims(ClaimedAt(a.Entry), one, ClaimedAt(b.Entry), other)
	}
	return cmp.Or(
		cmp.Compare(liveness.Severity(a.State), liveness.Severity(b.State)),
		cmp.Compare(len(a.Path), len(b.Path)),
		slices.Compare(a.Path, b.Path),
	)
}
