// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allocation finds conflicts between the allocation CIDRs of the
// clusters: the CIDRs within the ClusterSet IP range that each of them allocates
// shared ClusterSet IPs from.
package allocation

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
)

// Claim is the allocation CIDRs of one cluster.
type Claim struct {
	Cluster string
	// ClaimedAt is when the cluster joined the ClusterSet.
	ClaimedAt time.Time
	CIDRs     []string
	// Relayed is true if only a hub says so. It may say anything, also about ClaimedAt.
	Relayed bool
}

// Equal reports whether two claims are the same.
func (c Claim) Equal(other Claim) bool {
	return c.Cluster == other.Cluster && c.ClaimedAt.Equal(other.ClaimedAt) && slices.Equal(c.CIDRs, other.CIDRs) && c.Relayed == other.Relayed
}

// Conflicts returns, by cluster, a claim that overlaps the cluster's own and
// takes precedence: the cluster that joined first may allocate, but one that a hub
// relays only after this cluster and all direct members. It takes O(n log n) for n
// claims. Claims that are invalid allocate nothing and conflict with none.
func Conflicts(claims []Claim) map[string]Claim {
	claims = slices.Clone(claims)
	slices.SortFunc(claims, func(a, b Claim) int {
		switch {
		case !a.Relayed && b.Relayed:
			return -1
		case a.Relayed && !b.Relayed:
			return 1
		}
		return cmp.Or(identity.CompareAge(a.ClaimedAt, b.ClaimedAt), cmp.Compare(a.Cluster, b.Cluster))
	})
	conflicts := map[string]Claim{}
	var taken allocated
	for _, claim := range claims {
		cidrs, err := clustersetip.ParseCIDRs(claim.CIDRs)
		if err != nil {
			continue
		}
		for _, cidr := range cidrs {
			if holder, ok := taken.overlapping(cidr); ok && holder.Cluster != claim.Cluster {
				if _, known := conflicts[claim.Cluster]; !known {
					conflicts[claim.Cluster] = holder
				}
			}
		}
		for _, cidr := range cidrs {
			taken.add(cidr, claim)
		}
	}
	return conflicts
}

// Usable returns the allocation CIDRs by cluster, none for clusters with a conflict:
// those may not allocate.
func Usable(claims []Claim, conflicts map[string]Claim) clustersetip.Allocations {
	cidrs := map[string][]string{}
	for _, claim := range claims {
		cidrs[claim.Cluster] = claim.CIDRs
		if _, conflict := conflicts[claim.Cluster]; conflict {
			cidrs[claim.Cluster] = nil
		}
	}
	return clustersetip.NewAllocations(cidrs)
}

// ConflictOf returns a claim of another cluster that overlaps the claim of a
// cluster and takes precedence, nil without a conflict. The claim need not be
// one of the claims.
func ConflictOf(claim Claim, claims []Claim) *Claim {
	others := slices.DeleteFunc(slices.Clone(claims), func(other Claim) bool { return other.Cluster == claim.Cluster })
	if conflict, ok := Conflicts(append(others, claim))[claim.Cluster]; ok {
		return &conflict
	}
	return nil
}

// allocated are disjoint prefixes in order of their addresses, each with a claim
// that contains it.
type allocated []holding

type holding struct {
	prefix netip.Prefix
	claim  Claim
}

// search returns the range of prefixes that overlap cidr. Two prefixes either
// nest or are disjoint, so that is one prefix that contains it, or all within it.
func (a allocated) search(cidr netip.Prefix) (from, to int) {
	from, _ = slices.BinarySearchFunc(a, cidr.Addr(), func(h holding, address netip.Addr) int { return h.prefix.Addr().Compare(address) })
	if from > 0 && a[from-1].prefix.Overlaps(cidr) {
		return from - 1, from
	}
	to = from
	for to < len(a) && a[to].prefix.Overlaps(cidr) {
		to++
	}
	return from, to
}

func (a allocated) overlapping(cidr netip.Prefix) (Claim, bool) {
	if from, to := a.search(cidr); from < to {
		return a[from].claim, true
	}
	return Claim{}, false
}

func (a *allocated) add(cidr netip.Prefix, claim Claim) {
	from, to := a.search(cidr)
	if to == from+1 && (*a)[from].prefix.Bits() <= cidr.Bits() {
		return // contained already
	}
	*a = slices.Replace(*a, from, to, holding{cidr, claim})
}

// Problem describes why the allocation CIDRs of a member cannot be used in this
// cluster, which accepts addresses of its own ClusterSet IP ranges only. It is
// empty if they can.
func Problem(claim Claim, ranges []netip.Prefix) string {
	cidrs, err := clustersetip.ParseCIDRs(claim.CIDRs)
	if err != nil {
		return fmt.Sprintf("allocation CIDRs of cluster %q are invalid: %v", claim.Cluster, err)
	}
	if outside := clustersetip.Outside(cidrs, ranges); len(outside) > 0 {
		return fmt.Sprintf("allocation CIDRs %v of cluster %q are outside of the ClusterSet IP range %v of this cluster and are ignored here: "+
			"set --clusterset-ip-range to the same value in all clusters", outside, claim.Cluster, ranges)
	}
	return ""
}

// Unassigned describes why a member may not allocate from the CIDRs that it claims: its
// Secret does not assign all of them to it. It is empty if the member may, or if assigned is nil
// because the Secret does not say. Otherwise, a member that joined early could claim
// the CIDR that another one allocates from.
func Unassigned(claim Claim, assigned []netip.Prefix) string {
	cidrs, err := clustersetip.ParseCIDRs(claim.CIDRs)
	if assigned == nil || err != nil {
		return ""
	}
	outside := clustersetip.Outside(cidrs, assigned)
	if len(outside) == 0 {
		return ""
	}
	return fmt.Sprintf("cluster %q claims allocation CIDRs %v that its member Secret does not assign to it, and has no allocation CIDR in the view of this cluster: "+
		"shared ClusterSet IPs of it in the allocation CIDRs of other clusters are not believed, those in no allocation CIDR are; "+
		"correct its ClusterClaim %s or its flag --clusterset-ip-cidr, or, if it should have them, add them to %s in the member Secret",
		claim.Cluster, outside, multicluster.ClusterSetIPCIDRClaim, clusterset.MemberSecretAllocationCIDRs)
}

// NotAssigned returns the condition of a cluster whose claim is [Unassigned].
func NotAssigned(message string) *metav1.Condition {
	return &metav1.Condition{Type: clusterset.MemberClusterSetIP, Status: metav1.ConditionFalse, Reason: clusterset.ReasonNotAssigned, Message: message}
}

// Condition returns whether a cluster can allocate shared ClusterSet IPs, nil if
// it has no allocation CIDRs. conflict is nil without a conflict.
func Condition(claim Claim, conflict *Claim, problem string) *metav1.Condition {
	condition := &metav1.Condition{Type: clusterset.MemberClusterSetIP, Status: metav1.ConditionFalse}
	switch {
	case problem != "":
		condition.Reason, condition.Message = "Invalid", problem
	case len(claim.CIDRs) == 0:
		return nil
	case conflict != nil:
		condition.Reason = "Overlaps"
		condition.Message = fmt.Sprintf("allocation CIDRs %s of cluster %q overlap %s of cluster %q, which joined earlier: choose other CIDRs with --clusterset-ip-cidr or ClusterClaim %s",
			strings.Join(claim.CIDRs, ","), claim.Cluster, strings.Join(conflict.CIDRs, ","), conflict.Cluster, multicluster.ClusterSetIPCIDRClaim)
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, "Allocates"
		condition.Message = fmt.Sprintf("allocation CIDRs %s do not overlap those of other clusters", strings.Join(claim.CIDRs, ","))
	}
	return condition
}
