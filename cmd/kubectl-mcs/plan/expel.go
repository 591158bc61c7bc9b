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

// Expel plans how the peers expel the cluster with an ID, which is not trusted and not
// changed. It loses its access to all peers first. All peers expel it before any of them
// removes it: one that did not would show the others the decisions that they are giving up.
func Expel(id string, peers []Cluster) (Plan, error) {
	plan := Plan{Steps: []Step{}}
	var contexts []string
	var revoking, expelling, waiting, removing []Step
	known, named := sets.New[string](), sets.New[string]()
	for _, peer := range peers {
		contexts = append(contexts, peer.Context)
		named.Insert(peer.ID)
		known.Insert(slices.Collect(maps.Keys(peer.Known))...)
		if peer.ID == id {
			return Plan{}, fmt.Errorf("context %q refers to the cluster %q that is expelled: name only the other clusters in --from", peer.Context, id)
		}
		step := func(action Action) Step { return Step{Context: peer.Context, Action: action, Peers: []string{id}} }
		if _, granted := peer.Granted[id]; granted {
			revoking = append(revoking, step(RevokeAccess))
		}
		if _, member := peer.Members[id]; member {
			expelling, waiting, removing = append(expelling, step(ExpelMembers)), append(waiting, step(WaitForDecisions)), append(removing, step(RemoveMembers))
		} else if _, relayed := peer.Known[id]; relayed {
			plan.Warnings = append(plan.Warnings, fmt.Sprintf(
				"cluster %q reads %q through a hub, and keeps the shared ClusterSet IPs that it decided: before, create a Secret of type %s there, with %s %q and annotation %s=true",
				peer.ID, id, clusterset.MemberSecretType, clusterset.MemberSecretClusterID, id, clusterset.ExpelledAnnotation))
		}
	}
	if len(peers) == 0 {
		return Plan{}, fmt.Errorf("cluster %q can only be expelled from other clusters: name their contexts with --from", id)
	}
	plan.Steps = append(plan.Steps, slices.Concat(revoking, expelling, waiting, removing)...)
	if len(plan.Steps) == 0 {
		return Plan{}, fmt.Errorf("no cluster in --from (%s) has a member %q; if they read it through a hub, name the hub", strings.Join(contexts, ", "), id)
	}
	for _, other := range sets.List(known.Difference(named).Delete(id)) {
		plan.Warnings = append(plan.Warnings, fmt.Sprintf("cluster %q is not in --from and keeps %q as a member, and its shared ClusterSet IPs: run expel again with all clusters in --from", other, id))
	}
	return plan, nil
}
