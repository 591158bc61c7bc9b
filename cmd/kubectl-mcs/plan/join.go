// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// Join plans how every cluster becomes a member of every other, or of the hub only. ids has the IDs
// that clusters get, by context; all other clusters keep their ID. The plan has
// no steps for what is already in place. The error lists all problems.
func Join(clusterSet string, clusters []Cluster, ids map[string]string) (Plan, error) {
	clusters = slices.Clone(clusters)
	plan := Plan{Steps: []Step{}} // not null in JSON
	var errs []error
	var generated []string
	for i := range clusters {
		c := &clusters[i]
		first, another := choosing(*c, clusters)
		if ids[c.Context] == "" {
			generated = append(generated, generatedID(*c, another)...)
		}
		id := cmp.Or(ids[c.Context], c.ID)
		errs = append(errs, checkJoining(clusterSet, *c, id, first), checkAccess(*c, fmt.Sprintf("--server %s=URL", c.Context)))
		if id != c.ID {
			plan.Steps = append(plan.Steps, Step{Context: c.Context, Action: SetClusterID, Value: id})
		}
		c.ID = id
	}
	errs = append(errs, checkConflicts(clusters, clusterSet))
	if err := errors.Join(errs...); err != nil {
		return Plan{}, err
	}
	for _, c := range clusters {
		plan.add(c, GrantAccess, clusters, func(peer Cluster) bool { return !c.Granted[peer.ID] })
	}
	plan.Steps = append(plan.Steps, grantRelay(clusters)...)
	for _, c := range clusters {
		plan.add(c, AddMembers, clusters, func(peer Cluster) bool {
			member, ok := c.Members[peer.ID]
			return !ok || member.Rejected || member.Access != peer.Access
		})
	}
	plan.Steps = append(plan.Steps, allowRelay(clusters)...)
	allowing, outside := allowCIDRs(clusters)
	plan.Steps = append(plan.Steps, allowing...)
	steps, warnings, err := assignCIDRs(clusters)
	if err != nil {
		return Plan{}, err
	}
	plan.Steps = append(plan.Steps, steps...)
	for _, c := range clusters {
		if c.ClusterSet == "" {
			plan.Steps = append(plan.Steps, Step{Context: c.Context, Action: JoinClusterSet, Value: clusterSet, Since: c.Since})
		}
	}
	for _, c := range clusters {
		plan.add(c, RecordJoinTimes, clusters, func(peer Cluster) bool { return peer.ClusterSet == "" || c.Members[peer.ID].JoinedAt == "" })
	}
	recording, unrecorded := recordCIDRs(clusters, steps)
	plan.Steps = append(plan.Steps, recording...)
	if len(plan.Steps) > 0 {
		for _, c := range clusters {
			plan.add(c, WaitForMembers, clusters, func(Cluster) bool { return true })
		}
	}
	plan.Warnings = slices.Concat(generated, unchangedAges(clusters), unnamedMembers(clusters), overlappingPodCIDRs(clusters), outside, warnings, unrecorded)
	plan.Notes = unaskable(clusterSet, clusters, ids)
	return plan, nil
}

// unchangedAges warns about clusters that are members already, since a later time than the user
// says: a membership is never made older, because exports take precedence by their age.
func unchangedAges(clusters []Cluster) []string {
	var warnings []string
	for _, c := range clusters {
		if c.Since != "" && c.ClusterSet != "" && c.JoinedAt != c.Since {
			warnings = append(warnings, fmt.Sprintf("context %q: the cluster is a member since %s, which --since does not change: "+
				"run `kubectl mcs leave %s` first if its exports are to count from %s", c.Context, c.JoinedAt, c.Context, c.Since))
		}
	}
	return warnings
}

// add adds a step for the peers that need it.
func (p *Plan) add(c Cluster, action Action, clusters []Cluster, needed func(peer Cluster) bool) {
	step := Step{Context: c.Context, Action: action}
	for _, peer := range clusters {
		if linked(clusters, c, peer) && needed(peer) {
			step.Peers = append(step.Peers, peer.ID)
		}
	}
	if len(step.Peers) > 0 {
		p.Steps = append(p.Steps, step)
	}
}

// choosing returns how to choose the ID of a cluster that has none, and of one that has. A cluster
// that is checked alone does not join by this command, but by invitations, which set no IDs.
func choosing(c Cluster, clusters []Cluster) (first, another string) {
	if len(clusters) > 1 {
		flag := fmt.Sprintf("with --id %s=ID", c.Context)
		return "set one " + flag, "choose one " + flag
	}
	return "create the ClusterClaim " + multicluster.ClusterIDClaim, "choose one with: " + setIDCommand(c.Context, "ID")
}

// setIDCommand returns the command that sets the ID of a cluster that is not a member of a ClusterSet.
func setIDCommand(context, id string) string {
	return fmt.Sprintf(`kubectl patch clusterclaim %s --context %s --type=merge --patch '{"spec":{"value":%q}}'`, multicluster.ClusterIDClaim, context, id)
}

// checkJoining checks one cluster on its own. The remedy is for one without an ID.
func checkJoining(clusterSet string, c Cluster, id, remedy string) error {
	var errs []error
	switch {
	case id == "":
		errs = append(errs, fmt.Errorf("context %q: cluster has no ID: %s", c.Context, remedy))
	case len(validation.ValidateClusterID(id, nil)) > 0:
		errs = append(errs, fmt.Errorf("context %q: %w", c.Context, validation.ValidateClusterID(id, field.NewPath("id")).ToAggregate()))
	}
	if c.ClusterSet != "" && c.ClusterSet != clusterSet {
		errs = append(errs, fmt.Errorf("context %q: cluster is in ClusterSet %q: run `kubectl mcs leave %s` first", c.Context, c.ClusterSet, c.Context))
	}
	if c.ClusterSet != "" && id != c.ID {
		errs = append(errs, fmt.Errorf("context %q: cluster ID cannot change from %q to %q while the cluster is in a ClusterSet: run `kubectl mcs leave %s` first", c.Context, c.ID, id, c.Context))
	}
	return errors.Join(errs...)
}

// generatedID warns about a cluster that joins with an ID that nobody chose.
func generatedID(c Cluster, remedy string) []string {
	if !c.GeneratedID || c.ClusterSet != "" {
		return nil
	}
	return []string{fmt.Sprintf("context %q: the cluster joins with the generated ID %q, which is part of names and cannot be changed until it leaves the ClusterSet: %s", c.Context, c.ID, remedy)}
}

// checkAccess checks that other clusters can reach this one. The flag sets its address.
func checkAccess(c Cluster, flag string) error {
	var errs []error
	if err := checkServer(c.Access.Server); err != nil {
		errs = append(errs, fmt.Errorf("context %q: %w: set the address for other clusters with %s", c.Context, err, flag))
	}
	if c.Unverified {
		errs = append(errs, fmt.Errorf("context %q: the server's certificate is not verified: replace insecure-skip-tls-verify in the kubeconfig with certificate-authority-data", c.Context))
	}
	return errors.Join(errs...)
}

// checkServer checks that an address can be that of another cluster.
func checkServer(address string) error {
	server, err := url.Parse(address)
	switch {
	case err != nil || server.Scheme != "https" || server.Host == "":
		return fmt.Errorf("server %q is not an https URL", address)
	case server.User != nil || server.RawQuery != "" || server.Fragment != "":
		return fmt.Errorf("server %q has more than a host, a port and a path", address)
	case isLocal(server.Hostname()):
		return fmt.Errorf("server %q is only reachable from this machine", address)
	}
	return nil
}

// isLocal reports whether a host name refers to the machine on which it is used.
func isLocal(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && (address.IsLoopback() || address.IsUnspecified())
}

// checkConflicts checks for clusters that are given twice and for cluster IDs
// that are not unique, among the clusters and the members that they know.
func checkConflicts(clusters []Cluster, clusterSet string) error {
	var errs []error
	byUID, byID := map[types.UID]Cluster{}, map[string]Cluster{}
	for _, c := range clusters {
		if other, ok := byUID[c.UID]; ok {
			errs = append(errs, fmt.Errorf("contexts %q and %q refer to the same cluster: name it once", other.Context, c.Context))
			continue
		}
		byUID[c.UID] = c
		if other, ok := byID[c.ID]; ok && c.ID != "" {
			errs = append(errs, fmt.Errorf("contexts %q and %q: both clusters have the ID %q: %s", other.Context, c.Context, c.ID, rename(other, c)))
		}
		byID[c.ID] = c
	}
	for _, c := range clusters {
		for _, member := range clusters {
			if member.ClusterSet != clusterSet {
				continue // the members that it knows are not in the ClusterSet
			}
			if uid := member.Known[c.ID]; uid != "" && uid != c.UID && member.UID != c.UID {
				who, remedy := relayedBy(member, c.ID)
				errs = append(errs, fmt.Errorf("context %q: cluster ID %q is in use in ClusterSet %q by a member of context %q (UID %s%s): %s%s",
					c.Context, c.ID, clusterSet, member.Context, uid, who, rename(c), remedy))
				break // one error is enough
			}
		}
	}
	return errors.Join(errs...)
}

// relayedBy says by whom a member is known that a cluster does not read itself, and what to do
// if it does not exist.
func relayedBy(c Cluster, id string) (who, remedy string) {
	hub := c.Relayed[id]
	if hub == "" {
		return "", ""
	}
	return fmt.Sprintf(", relayed by member %q", hub), fmt.Sprintf("; if there is no such cluster, run `kubectl mcs expel %s --from %s`", hub, c.Context)
}

// rename describes how to give one of the clusters another ID.
func rename(clusters ...Cluster) string {
	var ways []string
	for _, c := range clusters {
		if c.ClusterSet == "" {
			ways = append(ways, fmt.Sprintf("--id %s=NEW_ID", c.Context))
		}
	}
	if len(ways) == 0 {
		return fmt.Sprintf("run `kubectl mcs leave %s`, and join again with --id %s=NEW_ID", clusters[0].Context, clusters[0].Context)
	}
	return "choose another ID with " + strings.Join(ways, " or ")
}

// unnamedMembers warns about members that the other clusters will not know.
func unnamedMembers(clusters []Cluster) []string {
	named := sets.New[string]()
	for _, c := range clusters {
		named.Insert(c.ID)
	}
	missing := map[string][]string{}
	for _, c := range clusters {
		for id := range c.Known {
			if !named.Has(id) {
				missing[id] = append(missing[id], c.Context)
			}
		}
	}
	var warnings []string
	for _, id := range slices.Sorted(maps.Keys(missing)) {
		warnings = append(warnings, fmt.Sprintf("cluster %q is a member of %s but is not among the arguments: list all clusters of the ClusterSet, except for clusters that a hub relays",
			id, strings.Join(missing[id], ", ")))
	}
	return warnings
}

// overlappingPodCIDRs warns about Pod CIDRs that overlap. It is not an error,
// because not every network uses the Pod CIDRs of the nodes.
func overlappingPodCIDRs(clusters []Cluster) []string {
	var warnings []string
	for i, c := range clusters {
		own, err := clustersetip.ParseCIDRs(c.PodCIDRs)
		if err != nil {
			continue
		}
		for _, other := range clusters[:i] {
			theirs, err := clustersetip.ParseCIDRs(other.PodCIDRs)
			if err != nil {
				continue
			}
			if a, b, found := clustersetip.Overlap(theirs, own); found {
				warnings = append(warnings, overlappingCIDRs(other.Context, a, c.Context, b))
			}
		}
	}
	return warnings
}

func overlappingCIDRs(a string, of netip.Prefix, b string, with netip.Prefix) string {
	return fmt.Sprintf("Pod CIDRs of %s (%s) and %s (%s) overlap: if Pods use these addresses, %s", a, of, b, with, wrongCluster)
}
