// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// AcceptOptions are what the user allows an invitation to change.
type AcceptOptions struct {
	// Repoint lets a member get another server or certificate authority.
	Repoint bool
	// Replace lets a member get other allowed CIDRs and allocation CIDRs than are recorded.
	Replace bool
}

// Accept plans how a cluster makes the cluster that invites it a member. The namespace is that
// of its installation. The error lists all problems. What this cluster recorded of a member
// is kept unless the options say otherwise.
func Accept(invitation Invitation, own Cluster, namespace string, now time.Time, options AcceptOptions) (Plan, error) {
	recorded := invitation.recorded(own, options.Replace)
	errs := []error{
		invitation.checkAddress(own, namespace, now), invitation.checkIdentity(own), invitation.checkAllocation(own), checkAllowedNetworks(own, recorded),
	}
	if err := checkServer(invitation.Access.Server); err != nil {
		errs = append(errs, fmt.Errorf("%w: ask for another invitation, with --server", err))
	}
	if !options.Repoint {
		errs = append(errs, invitation.checkRepointing(own))
	}
	if err := errors.Join(errs...); err != nil {
		return Plan{}, err
	}
	peers := []string{invitation.ID}
	planned := Plan{Steps: []Step{{Context: own.Context, Action: AddMembers, Peers: peers}}}
	planned.Steps = append(planned.Steps, recordAgain(own, recorded)...)
	if own.ClusterSet == "" {
		planned.Steps = append(planned.Steps, Step{Context: own.Context, Action: JoinClusterSet, Value: invitation.ClusterSet()})
	}
	planned.Steps = append(planned.Steps, Step{Context: own.Context, Action: WaitForMembers, Peers: peers})
	planned.Warnings = slices.Concat(invitation.kept(own, recorded), invitation.older(own), invitation.overlappingNetworks(own, recorded))
	return planned, nil
}

// older warns about a cluster that is new to this one, but says that it joined the ClusterSet before
// it. Nobody else can tell, and its exports win all conflicts with younger ones.
func (i Invitation) older(own Cluster) []string {
	joined, err := time.Parse(time.RFC3339, i.told().JoinedAt)
	ownJoined, errOwn := time.Parse(time.RFC3339, own.JoinedAt)
	if _, isMember := own.Members[i.ID]; isMember || own.ClusterSet == "" || err != nil || errOwn != nil || !joined.Before(ownJoined) {
		return nil
	}
	return []string{fmt.Sprintf("the invitation says that cluster %q joined at %s, before this one: where exports conflict, its older ones win; accept it only if that is so", i.ID, joined.UTC().Format(time.RFC3339))}
}

// recorded returns what the member Secret of the inviting cluster records when the invitation
// is accepted. What this cluster recorded before was decided here: a later invitation cannot
// make the member older, and changes its CIDRs only if they are to be replaced. It never
// removes them.
func (i Invitation) recorded(own Cluster, replace bool) Membership {
	told := i.told()
	existing, isMember := own.Members[i.ID]
	if !isMember {
		return told
	}
	latest := LatestJoinTime([]Cluster{own, {Members: map[string]Member{i.ID: {JoinedAt: told.JoinedAt}}}}, i.ID)
	if latest == LatestJoinTime([]Cluster{own}, i.ID) {
		latest = existing.JoinedAt
	}
	recorded := Membership{ID: i.ID, JoinedAt: latest, AllowedCIDRs: existing.AllowedCIDRs, AllocationCIDRs: existing.AllocationCIDRs}
	if recorded.AllocationCIDRs == "" || replace && told.AllocationCIDRs != "" {
		recorded.AllocationCIDRs = told.AllocationCIDRs
	}
	if recorded.AllowedCIDRs == "" || replace {
		inviting := Cluster{ID: i.ID, AllowedCIDRs: told.AllowedCIDRs}
		value, _ := newExporters([]Cluster{own, inviting}, own, inviting).allow()
		recorded.AllowedCIDRs = cmp.Or(value, recorded.AllowedCIDRs)
	}
	return recorded
}

// recordAgain plans how a cluster changes what it recorded of a member.
func recordAgain(own Cluster, recorded Membership) []Step {
	existing, isMember := own.Members[recorded.ID]
	if !isMember {
		return nil // the Secret is created with everything
	}
	var steps []Step
	record := func(action Action, value, before string, same bool) {
		if value != "" && !same {
			steps = append(steps, Step{Context: own.Context, Action: action, Value: value, Before: before, Peers: []string{recorded.ID}})
		}
	}
	record(AllowCIDRs, recorded.AllowedCIDRs, existing.AllowedCIDRs, sameCIDRs(recorded.AllowedCIDRs, existing.AllowedCIDRs))
	record(RecordCIDRs, recorded.AllocationCIDRs, existing.AllocationCIDRs, recorded.AllocationCIDRs == existing.AllocationCIDRs)
	record(RecordJoinTimes, recorded.JoinedAt, existing.JoinedAt, recorded.JoinedAt == existing.JoinedAt)
	return steps
}

// kept warns about values of an invitation that do not replace recorded ones.
func (i Invitation) kept(own Cluster, recorded Membership) []string {
	var warnings []string
	told, existing := i.told(), own.Members[i.ID]
	if told.AllowedCIDRs != "" && recorded.AllowedCIDRs == "" {
		warnings = append(warnings, fmt.Sprintf("the allowed CIDRs of the invitation, %s, are not recorded, because member %q may relay other clusters (%s), whose endpoints would be refused: set %s in its Secret to the CIDRs of all of them",
			told.AllowedCIDRs, i.ID, existing.RelayFor, clusterset.MemberSecretAllowedCIDRs))
	} else if told.AllowedCIDRs != "" && existing.AllowedCIDRs == recorded.AllowedCIDRs && !sameCIDRs(told.AllowedCIDRs, recorded.AllowedCIDRs) {
		warnings = append(warnings, fmt.Sprintf("member %q keeps the allowed CIDRs %s, although the invitation has %s: to replace them, repeat the command with --replace", i.ID, recorded.AllowedCIDRs, told.AllowedCIDRs))
	}
	if told.AllocationCIDRs != "" && existing.AllocationCIDRs == recorded.AllocationCIDRs && canonical(told.AllocationCIDRs) != canonical(recorded.AllocationCIDRs) {
		warnings = append(warnings, fmt.Sprintf("member %q keeps the allocation CIDRs %s, although the invitation has %s: to replace them, repeat the command with --replace", i.ID, recorded.AllocationCIDRs, told.AllocationCIDRs))
	}
	return warnings
}

// checkAddress checks that the invitation is for this cluster, and in time.
func (i Invitation) checkAddress(own Cluster, namespace string, now time.Time) error {
	var errs []error
	if own.ID != i.Invited {
		errs = append(errs, fmt.Errorf("the invitation is for cluster %q, but the ID of this one is %q: %s", i.Invited, own.ID, i.rename(own)))
	}
	if !i.Expires.After(now) {
		errs = append(errs, fmt.Errorf("the invitation expired at %s, and it is %s: ask for another one", i.Expires.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339)))
	}
	if i.Secret.Namespace != namespace {
		errs = append(errs, fmt.Errorf("the Secret is for namespace %q, but mcs-apiserver is installed in %q: ask for an invitation with this namespace (--namespace)", i.Secret.Namespace, namespace))
	}
	if name := cmp.Or(own.Members[i.ID].Secret.Name, clusterset.MemberSecretName(i.ID)); i.Secret.Name != name {
		errs = append(errs, fmt.Errorf("the Secret is named %q, but that of member %q must be named %q: change its name", i.Secret.Name, i.ID, name))
	}
	if own.ClusterSet != "" && own.ClusterSet != i.ClusterSet() {
		errs = append(errs, fmt.Errorf("the invitation is to ClusterSet %q, but this cluster is in ClusterSet %q: run `kubectl mcs leave %s` first", i.ClusterSet(), own.ClusterSet, own.Context))
	}
	return errors.Join(errs...)
}

// rename describes what to do about an invitation for another cluster ID than that of this
// cluster. An ID that nobody chose is likely not the one that was meant.
func (i Invitation) rename(own Cluster) string {
	if !own.GeneratedID || own.ClusterSet != "" || !isName(i.Invited) {
		return "ask for another one"
	}
	return fmt.Sprintf("this ID was generated; to set the other one, run `%s`, and accept the invitation again", setIDCommand(own.Context, i.Invited))
}

// checkIdentity checks that the cluster ID of the inviting cluster is not that of another one.
func (i Invitation) checkIdentity(own Cluster) error {
	uid, known := types.UID(i.UID()), own.Known[i.ID]
	switch {
	case i.ID == own.ID || uid == own.UID:
		return fmt.Errorf("the invitation is of this cluster, %q, itself", own.ID)
	case known != "" && known != uid:
		return fmt.Errorf("cluster ID %q is in use by another member (UID %q) than the inviting cluster (UID %q): if that no longer exists, run `kubectl mcs leave --id %s --from %s` first; otherwise, one of them needs another ID",
			i.ID, known, uid, i.ID, own.Context)
	}
	return nil
}

// checkRepointing checks that a member with the ID of the inviting cluster is reached in the
// same way, and that it is not a member by another ID. A UID is not secret, so a cluster that
// a hub relays is replaced by the one of an invitation only if the user says so.
func (i Invitation) checkRepointing(own Cluster) error {
	var errs []error
	member, ok := own.Members[i.ID]
	if ok && member.Access != i.Access && member.Access != (Access{}) {
		what, _ := difference(member.Access, i.Access)
		errs = append(errs, fmt.Errorf("member %q is reached at %q, and would be at %q: %s; if that is right, repeat the command with --repoint", i.ID, member.Access.Server, i.Access.Server, what))
	}
	if !ok && own.Known[i.ID] != "" {
		errs = append(errs, fmt.Errorf("cluster %q is known here through a hub, and would be read at %q instead: if that is right, repeat the command with --repoint", i.ID, i.Access.Server))
	}
	for _, other := range own.membersAt(i.Access) {
		if other != i.ID {
			errs = append(errs, fmt.Errorf("the inviting cluster is member %q already, but would become %q: remove it first, with `kubectl mcs leave --id ID --from %s`", other, i.ID, own.Context))
		}
	}
	return errors.Join(errs...)
}

// checkAllocation checks that no other cluster has the allocation CIDRs of the inviting one.
func (i Invitation) checkAllocation(own Cluster) error {
	theirs := parseAll(i.value(clusterset.MemberSecretAllocationCIDRs))
	if mine, err := clustersetip.ParseCIDRs(own.CIDRs); err == nil {
		if a, b, overlaps := clustersetip.Overlap(mine, theirs); overlaps {
			return fmt.Errorf("allocation CIDR %s of this cluster overlaps %s of %s: delete the ClusterClaim %s here, or change the flag --clusterset-ip-cidr of mcs-apiserver; then accept the invitation. `kubectl mcs invite` assigns another one",
				a, b, i.ID, multicluster.ClusterSetIPCIDRClaim)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(own.Members)) {
		if a, b, overlaps := clustersetip.Overlap(parseAll(own.Members[id].AllocationCIDRs), theirs); overlaps && id != i.ID {
			return fmt.Errorf("allocation CIDR %s of member %q overlaps %s of %s: one of them needs another ClusterClaim %s, and a new invitation",
				a, id, b, i.ID, multicluster.ClusterSetIPCIDRClaim)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(own.Taken)) {
		if a, b, overlaps := clustersetip.Overlap(parseAll(strings.Join(own.Taken[uid], ",")), theirs); overlaps && uid != types.UID(i.UID()) {
			return fmt.Errorf("allocation CIDR %s, which the cluster with UID %q claims, overlaps %s of %s: one of them needs another ClusterClaim %s, and a new invitation; see `kubectl get members`",
				a, uid, b, i.ID, multicluster.ClusterSetIPCIDRClaim)
		}
	}
	return nil
}

// checkAllowedNetworks checks that an invitation does not allow endpoints of the inviting cluster in
// the networks of this one: mcs-apiserver refuses those in Pod CIDRs unless allowed CIDRs
// contain them, so the inviting cluster could make clients here connect to any Pod. What was
// recorded before was decided here.
func checkAllowedNetworks(own Cluster, recorded Membership) error {
	allowed := parsePrefixes(recorded.AllowedCIDRs)
	if len(allowed) == 0 || sameCIDRs(recorded.AllowedCIDRs, own.Members[recorded.ID].AllowedCIDRs) {
		return nil
	}
	onPurpose := fmt.Sprintf("if the clusters have a common Pod network, ask for one without --allowed-cidrs, and then set %s in its member Secret in this cluster", clusterset.MemberSecretAllowedCIDRs)
	if own.NodesHidden {
		return fmt.Errorf("whether the allowed CIDRs %s contain Pods of this cluster cannot be checked, because you may not list nodes: accept the invitation with this permission", recorded.AllowedCIDRs)
	}
	if cidr, network, overlaps := clustersetip.Overlap(allowed, parsePrefixes(strings.Join(own.PodCIDRs, ","))); overlaps {
		return fmt.Errorf("allowed CIDR %s of %s overlaps Pod CIDR %s of this cluster: what it exports could lead to Pods of this cluster. Ask for an invitation with the CIDRs of its own Pods; %s", cidr, recorded.ID, network, onPurpose)
	}
	if cidr, network, overlaps := clustersetip.Overlap(allowed, parsePrefixes(strings.Join(own.ServiceCIDRs, ","))); overlaps {
		return fmt.Errorf("allowed CIDR %s of %s overlaps Service CIDR %s of this cluster: ask for an invitation with the CIDRs of its own Pods", cidr, recorded.ID, network)
	}
	return nil
}

// overlappingNetworks warns about Pod networks that overlap. It is not an error, because
// clusters may have a common Pod network.
func (i Invitation) overlappingNetworks(own Cluster, recorded Membership) []string {
	theirs := parsePrefixes(recorded.AllowedCIDRs)
	if len(theirs) == 0 {
		if i.told().AllowedCIDRs != "" {
			return nil // there is a warning already
		}
		return []string{fmt.Sprintf("the invitation has no %s: whether the Pod networks overlap is not checked, and endpoints of %s are withdrawn when it is silent for its TTL (60s by default), whether they answer or not",
			clusterset.MemberSecretAllowedCIDRs, i.ID)}
	}
	var warnings []string
	check := func(what string, networks []netip.Prefix) {
		if a, b, overlaps := clustersetip.Overlap(networks, theirs); overlaps {
			warnings = append(warnings, fmt.Sprintf("%s %s and allowed CIDR %s of %s overlap: unless the clusters have a common Pod network, traffic reaches the wrong cluster, because addresses are not translated", what, a, b, i.ID))
		}
	}
	check("Pod CIDR of this cluster", parsePrefixes(strings.Join(own.PodCIDRs, ",")))
	for _, id := range slices.Sorted(maps.Keys(own.Members)) {
		if id != i.ID {
			check("allowed CIDR of member "+id, parsePrefixes(own.Members[id].AllowedCIDRs))
		}
	}
	return warnings
}
