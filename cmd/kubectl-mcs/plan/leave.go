// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Leave plans how a cluster ceases to be a member, here and in the peers. What
// it exports and imports is withdrawn by the first step. Ids are not enough to go
// by: in a peer, another cluster may be the member with the leaver's id.
func Leave(leaver Cluster, peers []Cluster) (Plan, error) {
	plan := Plan{Steps: []Step{}}
	for _, peer := range peers {
		if peer.UID == leaver.UID {
			return plan, fmt.Errorf("context %s leads to the cluster that is to leave: name the others with --from", peer.Context)
		}
	}
	if leaver.ClusterSet != "" {
		plan.Steps = append(plan.Steps, Step{Context: leaver.Context, Action: Unclaim, Value: leaver.ClusterSet})
	}
	for _, peer := range peers {
		if uid := peer.Known[leaver.ID]; uid != "" && uid != leaver.UID {
			plan.Warnings = append(plan.Warnings, fmt.Sprintf("in %s, %q is another cluster (UID %s) than that of %s (UID %s): what there is of it is left alone",
				peer.Context, leaver.ID, uid, leaver.Context, leaver.UID))
			continue
		}
		plan.drop(peer, leaver.ID)
	}
	plan.drop(leaver, slices.Sorted(maps.Keys(sets.KeySet(leaver.Members).Union(sets.KeySet(leaver.Admitted))))...)
	known := sets.KeySet(leaver.Known).Union(sets.KeySet(leaver.Members))
	for _, peer := range peers {
		known.Delete(peer.ID)
	}
	for _, id := range sets.List(known) {
		plan.Warnings = append(plan.Warnings, fmt.Sprintf(
			"%q is not among --from: it goes on looking for %q until its Secret and its account for it are deleted there, with `kubectl delete -n mcs-system secret/member-%s serviceaccount/peer-%s`",
			id, leaver.ID, leaver.ID, leaver.ID))
	}
	return plan, nil
}

// drop ends what a cluster has to do with others, as far as there is anything.
func (p *Plan) drop(c Cluster, ids ...string) {
	members, admitted := Step{Context: c.Context, Action: RemoveMembers}, Step{Context: c.Context, Action: Expel}
	for _, id := range ids {
		if _, ok := c.Members[id]; ok {
			members.Peers = append(members.Peers, id)
		}
		if _, any := c.Admitted[id]; any {
			admitted.Peers = append(admitted.Peers, id)
		}
	}
	for _, step := range []Step{members, admitted} {
		if len(step.Peers) > 0 {
			p.Steps = append(p.Steps, step)
		}
	}
}
