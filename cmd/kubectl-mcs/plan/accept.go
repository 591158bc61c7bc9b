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

// Accept plans how a cluster makes the cluster that invites it a member. The namespace is that
// of its installation. The error lists all problems. Without repoint, a member does not get
// another server or certificate authority.
func Accept(invitation Invitation, own Cluster, namespace string, now time.Time, repoint bool) (Plan, error) {
	errs := []error{
		invitation.checkAddress(own, namespace, now), invitation.checkIdentity(own), invitation.checkAllocation(own),
	}
	if err := checkServer(invitation.Access.Server); err != nil {
		errs = append(errs, fmt.Errorf("%w: ask for another invitation, with --server", err))
	}
	if !repoint {
		errs = append(errs, invitation.checkRepointing(own))
	}
	if err := errors.Join(errs...); err != nil {
		return Plan{}, err
	}
	peers := []string{invitation.ID}
	planned := Plan{Steps: []Step{{Context: own.Context, Action: AddMembers, Peers: peers}}}
	if own.ClusterSet == "" {
		planned.Steps = append(planned.Steps, Step{Context: own.Context, Action: JoinClusterSet, Value: invitation.ClusterSet()})
	}
	planned.Steps = append(planned.Steps, Step{Context: own.Context, Action: WaitForMembers, Peers: peers})
	planned.Warnings = invitation.overlappingNetworks(own)
	return planned, nil
}

// checkAddress checks that the invitation is for this cluster, and in time.
func (i Invitation) checkAddress(own Cluster, namespace string, now time.Time) error {
	var errs []error
	if own.ID != i.Invited {
		errs = append(errs, fmt.Errorf("the invitation is for cluster %q, but the ID of this one is %q: ask for another one", i.Invited, own.ID))
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

// checkIdentity checks that the cluster ID of the inviting cluster is not that of another one.
func (i Invitation) checkIdentity(own Cluster) error {
	uid, known := types.UID(i.UID()), own.Known[i.ID]
	switch {
	case i.ID == own.ID || uid != "" && uid == own.UID:
		return fmt.Errorf("the invitation is of this cluster, %q, itself", own.ID)
	case uid != "" && known != "" && known != uid:
		return fmt.Errorf("cluster ID %q is in use by another member (UID %q) than the inviting cluster (UID %q): if that no longer exists, run `kubectl mcs leave --id %s --from %s` first; otherwise, one of them needs another ID",
			i.ID, known, uid, i.ID, own.Context)
	}
	return nil
}

// checkRepointing checks that a member with the ID of the inviting cluster is reached in the
// same way, and that it is not a member by another ID.
func (i Invitation) checkRepointing(own Cluster) error {
	var errs []error
	member, ok := own.Members[i.ID]
	if ok && member.Access != i.Access && member.Access != (Access{}) {
		what, _ := difference(member.Access, i.Access)
		errs = append(errs, fmt.Errorf("member %q is reached at %q, and would be at %q: %s; if that is right, repeat the command with --repoint", i.ID, member.Access.Server, i.Access.Server, what))
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
			return fmt.Errorf("allocation CIDR %s of this cluster overlaps %s of %s: delete the ClusterClaim %s here, or change the flag --clusterset-ip-cidr; then accept the invitation. `kubectl mcs invite` assigns another one",
				a, b, i.ID, multicluster.ClusterSetIPCIDRClaim)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(own.Members)) {
		if a, b, overlaps := clustersetip.Overlap(parseAll(own.Members[id].AllocationCIDRs), theirs); overlaps && id != i.ID {
			return fmt.Errorf("allocation CIDR %s of member %q overlaps %s of %s: one of them needs another ClusterClaim %s, and a new invitation",
				a, id, b, i.ID, multicluster.ClusterSetIPCIDRClaim)
		}
	}
	return nil
}

// overlappingNetworks warns about Pod networks that overlap. It is not an error, because
// clusters may have a common Pod network.
func (i Invitation) overlappingNetworks(own Cluster) []string {
	theirs := parsePrefixes(i.value(clusterset.MemberSecretAllowedCIDRs))
	if len(theirs) == 0 {
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
