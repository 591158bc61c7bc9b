// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// Leave plans how a cluster leaves its ClusterSet, and how it is removed from
// the peers. The first step withdraws what the cluster exports and imports. IDs
// alone do not identify a cluster: in a peer, another cluster may be the member
// with the ID of the leaving one, see dropLeaving.
func Leave(leaving Cluster, peers []Cluster) (Plan, error) {
	plan := Plan{Steps: []Step{}}
	for _, peer := range peers {
		if peer.UID == leaving.UID {
			return plan, fmt.Errorf("context %q refers to the cluster that is leaving: name only the other clusters in --from", peer.Context)
		}
	}
	if leaving.ClusterSet != "" {
		plan.Steps = append(plan.Steps, Step{Context: leaving.Context, Action: LeaveClusterSet, Value: leaving.ClusterSet})
	}
	for _, peer := range peers {
		plan.dropLeaving(peer, leaving)
		plan.Warnings = append(plan.Warnings, lostWithHub(peer, leaving.ID)...)
	}
	plan.drop(leaving, slices.Sorted(maps.Keys(sets.KeySet(leaving.Members).Union(sets.KeySet(leaving.Granted))))...)
	remaining := sets.KeySet(leaving.Members).Union(sets.KeySet(leaving.Granted))
	relayed := sets.KeySet(leaving.Known).Difference(remaining)
	for _, peer := range peers {
		remaining.Delete(peer.ID)
		relayed.Delete(peer.ID)
	}
	for _, id := range sets.List(relayed) {
		plan.Warnings = append(plan.Warnings, fmt.Sprintf("cluster %q knows %q by a hub: remove %q from %s of the member Secret of the hub in %q, so that the hub cannot relay another cluster with this ID",
			id, leaving.ID, leaving.ID, clusterset.MemberSecretRelayFor, id))
	}
	for _, id := range sets.List(remaining) {
		plan.Warnings = append(plan.Warnings, fmt.Sprintf("cluster %q is not in --from and keeps %q as a member: when it is not connected any more, run `kubectl mcs leave --id %s --from CONTEXT` with the context of %q",
			id, leaving.ID, leaving.ID, id))
	}
	return plan, nil
}

// Forget plans how a cluster that no longer exists, or no longer responds, is
// removed from its peers. The cluster is given by the name that the user knows
// it by, and by the address and authority of its kubeconfig context, if it has
// one. Forget returns the ID that the peers know the cluster by. It fails if that
// ID is not the same cluster in all peers.
func Forget(name string, access Access, peers []Cluster) (string, Plan, error) {
	plan := Plan{Steps: []Step{}}
	id := memberAt(access, peers)
	if id == "" {
		id = name
	}
	var contexts []string
	var known Cluster // the first peer that knows the cluster
	for _, peer := range peers {
		contexts = append(contexts, peer.Context)
		switch uid := peer.Known[id]; {
		case uid == "":
		case known.Known == nil:
			known = peer
		case uid != known.Known[id]:
			return id, Plan{}, fmt.Errorf("member %q of the cluster of context %q (UID %s) and member %q of the cluster of context %q (UID %s) are different clusters: name only the clusters in --from that have the cluster to remove as a member",
				id, known.Context, known.Known[id], id, peer.Context, uid)
		}
		if peer.Connected[id] {
			return id, Plan{}, fmt.Errorf("cluster %q is still connected to the cluster of context %q: if the cluster still exists, use a kubeconfig with a working context for the cluster; if you do not trust it any more, use kubectl mcs expel; otherwise, repeat the command when its member is Unavailable, Stale, Lost or Refused", id, peer.Context)
		}
		if peer.ID == id {
			return id, Plan{}, fmt.Errorf("context %q refers to the cluster %q that is leaving: name only the other clusters in --from", peer.Context, id)
		}
		plan.drop(peer, id)
		plan.Warnings = append(plan.Warnings, lostWithHub(peer, id)...)
	}
	if len(peers) == 0 {
		return id, Plan{}, fmt.Errorf("cluster %q can only be removed from other clusters: name their contexts with --from", id)
	}
	if len(plan.Steps) == 0 {
		return id, Plan{}, fmt.Errorf("no cluster in --from (%s) has a member %q", strings.Join(contexts, ", "), id)
	}
	plan.Warnings = append(plan.Warnings, fmt.Sprintf("cluster %q itself is not changed: if the cluster still exists, it keeps its ClusterSet claim and member Secrets, but loses access to the other clusters", id))
	return id, plan, nil
}

// drop removes the given clusters from the members of a cluster and revokes
// their access, as far as they have any.
func (p *Plan) drop(c Cluster, ids ...string) {
	members, granted := Step{Context: c.Context, Action: RemoveMembers}, Step{Context: c.Context, Action: RevokeAccess}
	for _, id := range ids {
		if _, ok := c.Members[id]; ok {
			members.Peers = append(members.Peers, id)
		}
		if _, any := c.Granted[id]; any {
			granted.Peers = append(granted.Peers, id)
		}
	}
	p.Warnings = append(p.Warnings, stillRelayed(c, ids)...)
	for _, step := range []Step{members, granted} {
		if len(step.Peers) > 0 {
			p.Steps = append(p.Steps, step)
		}
	}
}

// stillRelayed warns about hubs that may relay a cluster that leaves: they could relay another
// one that gets its ID.
func stillRelayed(c Cluster, leaving []string) []string {
	var warnings []string
	for _, hub := range slices.Sorted(maps.Keys(c.Members)) {
		if slices.Contains(leaving, hub) {
			continue // its Secret is deleted
		}
		for _, id := range clusterset.SplitList(c.Members[hub].RelayFor) {
			if slices.Contains(leaving, id) {
				warnings = append(warnings, fmt.Sprintf("in context %q, hub %q may relay %q, also another cluster that gets this ID: remove it from %s in its member Secret", c.Context, hub, id, clusterset.MemberSecretRelayFor))
			}
		}
	}
	return warnings
}

// lostWithHub warns about clusters that are known by a hub that leaves, and by no other way.
func lostWithHub(c Cluster, hub string) []string {
	var lost []string
	for _, id := range slices.Sorted(maps.Keys(c.Known)) {
		if _, direct := c.Members[id]; direct || !c.lets(hub, id) {
			continue
		}
		others := slices.DeleteFunc(slices.Collect(maps.Keys(c.Members)), func(other string) bool { return other == hub || !c.lets(other, id) })
		if len(others) == 0 {
			lost = append(lost, id)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("in context %q, hub %q relays %s, and what these export is withdrawn when it leaves: to keep it, join the remaining clusters first, with each other or with another hub (kubectl mcs join)",
		c.Context, hub, strings.Join(lost, ", "))}
}

// lets reports whether a member may relay a cluster.
func (c Cluster) lets(member, id string) bool {
	allowed := clusterset.SplitList(c.Members[member].RelayFor)
	return id != member && (slices.Contains(allowed, "*") || slices.Contains(allowed, id))
}
