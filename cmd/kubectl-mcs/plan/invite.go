// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// Invite plans what a cluster does before another one, which has the ID of peer, can become
// a member by reading from it: all that [Join] does in this cluster. A cluster that invites
// another one is in the ClusterSet, so that the other one learns when it joined. The
// ClusterSet is that of the cluster by default.
func Invite(clusterSet string, own Cluster, peer string) (Plan, error) {
	clusterSet = cmp.Or(clusterSet, own.ClusterSet)
	var errs []error
	if invalid := validation.ValidateClusterID(peer, field.NewPath("CLUSTER_ID")); len(invalid) > 0 {
		errs = append(errs, invalid.ToAggregate())
	}
	switch {
	case own.ID == "":
		errs = append(errs, fmt.Errorf("context %q: cluster has no ID: create the ClusterClaim %s first", own.Context, multicluster.ClusterIDClaim))
	case own.ID == peer:
		errs = append(errs, fmt.Errorf("context %q: %q is the ID of this cluster: name the cluster that is invited", own.Context, peer))
	case clusterSet == "":
		errs = append(errs, fmt.Errorf("context %q: cluster is not in a ClusterSet: to join an existing one, accept an invitation of one of its clusters first; to found one, add --clusterset NAME", own.Context))
	default:
		errs = append(errs, checkJoining(clusterSet, own, own.ID, "" /* it has one */), checkAccess(own, "--server URL"))
	}
	if err := errors.Join(errs...); err != nil {
		return Plan{}, err
	}
	planned := Plan{Steps: []Step{}} // not null in JSON
	if !own.Granted[peer] {
		planned.Steps = append(planned.Steps, Step{Context: own.Context, Action: GrantAccess, Peers: []string{peer}})
	}
	assigned, warnings, err := assignCIDRs([]Cluster{own})
	if err != nil {
		return Plan{}, err
	}
	planned.Steps = append(planned.Steps, assigned...)
	if own.ClusterSet == "" {
		planned.Steps = append(planned.Steps, Step{Context: own.Context, Action: JoinClusterSet, Value: clusterSet})
	}
	warnings = append(warnings, generatedID(own, fmt.Sprintf("to choose one, run `kubectl mcs leave %s`, change the ClusterClaim %s, and invite again", own.Context, multicluster.ClusterIDClaim))...)
	if warning, outside := outsideAllowed(own); outside {
		warnings = append(warnings, warning)
	}
	if uid := own.Known[peer]; uid != "" && own.Granted[peer] {
		warnings = append(warnings, fmt.Sprintf("cluster %q (UID %q) has access already, and the invitation has a token of the same service account: send it to the administrators of that cluster only", peer, uid))
	}
	planned.Warnings = warnings
	if own.AllowedCIDRs == "" {
		planned.Notes = append(planned.Notes, withoutAllowedCIDRs(own))
	}
	return planned, nil
}

// withoutAllowedCIDRs returns a note about an invitation that does not say where Pods are.
func withoutAllowedCIDRs(own Cluster) string {
	nodes := ""
	if cidrs := parsePrefixes(strings.Join(own.PodCIDRs, ",")); len(cidrs) > 0 {
		var texts []string
		for _, cidr := range cidrs[:min(3, len(cidrs))] {
			texts = append(texts, cidr.String()) // nodes may have another notation
		}
		nodes = fmt.Sprintf(" (its nodes have %s)", strings.Join(texts, ", "))
	}
	return fmt.Sprintf("the invitation has no %s: while %s is silent, its endpoints are not asked whether they answer, and all of them are withdrawn after its TTL (60s by default). "+
		"To change that, add --allowed-cidrs with the CIDRs of the Pods of all nodes, also of future ones%s", clusterset.MemberSecretAllowedCIDRs, own.ID, nodes)
}

// Told returns what the cluster tells others about itself when the plan is carried out, all
// but its token and when it joined.
func (c Cluster) Told(planned Plan) Membership {
	told := Membership{ID: c.ID, UID: c.UID, Access: c.Access, AllowedCIDRs: c.AllowedCIDRs, Secret: clusterset.MemberSecretName(c.ID)}
	if value := c.final(planned.Steps); recordable(value) {
		told.AllocationCIDRs = value
	}
	return told
}
