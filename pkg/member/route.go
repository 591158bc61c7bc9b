// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
)

// staleAfter is how long a member may be silent before that is shown. It is
// three probes, so that one that gets lost means nothing.
const staleAfter = 15 * time.Second

// MinTTL is the least that a TTL may be: a member that is lost was stale before.
const MinTTL = 2 * staleAfter

// stateAt is a member's state, given when it was last seen.
func stateAt(now, lastSeen time.Time, ttl time.Duration) clusterset.MemberState {
	switch age := now.Sub(lastSeen); {
	case lastSeen.IsZero():
		return clusterset.MemberConnecting
	case age >= ttl:
		return clusterset.MemberLost
	case age >= staleAfter:
		return clusterset.MemberStale
	}
	return clusterset.MemberConnected
}

// severity orders states, the best first.
func severity(state clusterset.MemberState) int {
	return slices.Index([]clusterset.MemberState{
		clusterset.MemberConnected, clusterset.MemberStale, clusterset.MemberLost, clusterset.MemberConnecting, clusterset.MemberRefused,
	}, state)
}

// route is which member to believe about a cluster.
type route struct {
	cluster string
	// peer is the member that tells.
	peer *peer
	// path is the way from the cluster to this one.
	path  []string
	state clusterset.MemberState
	// lastSeen is when the cluster was last seen, by whoever is next to it.
	lastSeen time.Time
	// entry is what the hub says of the cluster; nil for a direct member.
	entry *clusterset.Member
}

// teller is a member that takes part, and what it can say.
type teller struct {
	peer  *peer
	spec  *spec
	state clusterset.MemberState
	// lastSeen is when the member itself was seen.
	lastSeen time.Time
	// relayed are the entries of a hub, by cluster id.
	relayed map[string]*clusterset.Member
}

// chooseRoutes decides, per cluster, whom to believe. All that is known of a
// cluster comes from one member, never from several: one that has lost touch
// would keep alive what the others know to be gone. A direct member beats
// hubs, also when it cannot be reached, but not before it has been heard; of
// hubs the one that is in touch, then the shortest path. direct are the
// clusters that no hub is asked about.
func chooseRoutes(self Identity, direct map[string]bool, tellers []teller) map[string]route {
	routes := map[string]route{}
	for _, t := range tellers {
		routes[t.spec.id] = route{cluster: t.spec.id, peer: t.peer, path: []string{t.spec.id}, state: t.state, lastSeen: t.lastSeen}
	}
	for _, t := range tellers {
		for id, entry := range t.relayed {
			if direct[id] || !relayable(self, t.spec, id, entry) {
				continue
			}
			candidate := route{
				cluster: id, peer: t.peer, path: append(slices.Clone(entry.Status.Path), t.spec.id),
				state: worse(t.state, entry.Status.State), entry: entry,
			}
			if len(entry.Status.Path) == 0 {
				candidate.path = []string{id, t.spec.id}
			}
			if entry.Status.LastSeen != nil {
				candidate.lastSeen = entry.Status.LastSeen.Time
			}
			if held, ok := routes[id]; !ok || held.entry == nil || compareRoutes(candidate, held) < 0 {
				routes[id] = candidate
			}
		}
	}
	return routes
}

// relayable says whether a hub's word about another cluster counts.
func relayable(self Identity, hub *spec, id string, entry *clusterset.Member) bool {
	status := &entry.Status
	return hub.relay.allows(id) && id != hub.id && id != self.ID &&
		len(validation.ValidateClusterID(id, nil)) == 0 &&
		(status.ClusterUID == "" || status.ClusterUID != self.UID) &&
		status.ClusterSet == self.ClusterSet &&
		severity(status.State) >= 0 && status.State != clusterset.MemberRefused &&
		!slices.Contains(status.Path, self.ID) && !slices.Contains(status.Path, hub.id)
}

// claimOf is since when a cluster claims its id, zero if it is not said.
func claimOf(entry *clusterset.Member) time.Time {
	if entry.Status.IDClaimedAt == nil {
		return time.Time{}
	}
	return entry.Status.IDClaimedAt.Time
}

func worse(a, b clusterset.MemberState) clusterset.MemberState {
	if severity(a) > severity(b) {
		return a
	}
	return b
}

// compareRoutes puts the route first that is to be taken. Where hubs know two
// clusters by one id, it is that to the cluster that keeps it.
func compareRoutes(a, b route) int {
	if one, other := a.entry.Status.ClusterUID, b.entry.Status.ClusterUID; one != other && one != "" && other != "" {
		return olderClaim(claimOf(a.entry), one, claimOf(b.entry), other)
	}
	return cmp.Or(
		cmp.Compare(severity(a.state), severity(b.state)),
		cmp.Compare(len(a.path), len(b.path)),
		slices.Compare(a.path, b.path),
	)
}

// same says whether two routes lead to the same facts in the same state.
func (r route) same(other route) bool {
	return r.peer == other.peer && r.state == other.state
}

// keys are all services that the route tells of.
func (r route) keys() []types.NamespacedName {
	if r.peer == nil || r.peer.holdings[r.cluster] == nil {
		return nil
	}
	return slices.Collect(maps.Keys(r.peer.holdings[r.cluster].facts))
}
