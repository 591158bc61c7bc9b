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
	// Hub is the hub that relays the cluster, and HubClaimedAt when the hub joined, if
	// nothing but the hub says so: it may say anything, also about ClaimedAt.
	Hub          string
	HubClaimedAt time.Time
}

// Equal reports whether two claims are the same.
func (c Claim) Equal(other Claim) bool {
	return c.Cluster == other.Cluster && c.ClaimedAt.Equal(other.ClaimedAt) && slices.Equal(c.CIDRs, other.CIDRs) &&
		c.Hub == other.Hub && c.HubClaimedAt.Equal(other.HubClaimedAt)
}

// Relayed reports whether nothing but a hub says so.
func (c Claim) Relayed() bool { return c.Hub != "" }

// compare orders the claim that takes precedence first: that of the cluster that joined
// first, but one that is relayed after all that are not. Of two relayed ones, it is the
// one of the hub that joined first: a hub cannot date the clusters that it relays so that
// they displace those of another hub.
func compare(a, b Claim) int {
	if a.Relayed() != b.Relayed() {
		if b.Relayed() {
			return -1
		}
		return 1
	}
	return cmp.Or(
		identity.CompareAge(a.HubClaimedAt, b.HubClaimedAt), cmp.Compare(a.Hub, b.Hub),
		identity.CompareAge(a.ClaimedAt, b.ClaimedAt), cmp.Compare(a.Cluster, b.Cluster),
	)
}

// Conflicts are claims that overlap.
type Conflicts struct {
	// Lost has, by cluster, a claim that overlaps the cluster's own and takes precedence:
	// the cluster may not allocate.
	Lost map[string]Claim
	// Contested has, by relayed cluster, a claim that overlaps the cluster's own and does
	// not take precedence.
	Contested map[string]Claim
}

// NewConflicts compares claims. It takes O(n log n) for n claims. Claims that are invalid
// allocate nothing and conflict with none.
func NewConflicts(claims []Claim) Conflicts {
	claims = slices.Clone(claims)
	slices.SortFunc(claims, compare)
	conflicts := Conflicts{Lost: map[string]Claim{}, Contested: map[string]Claim{}}
	var taken allocated
	for _, claim := range claims {
		cidrs, err := clustersetip.ParseCIDRs(claim.CIDRs)
		if err != nil {
			continue
		}
		for _, cidr := range cidrs {
			for _, holder := range taken.overlapping(cidr) {
				conflicts.add(holder.claim, claim)
			}
		}
		for _, cidr := range cidrs {
			taken.add(cidr, claim)
		}
	}
	return conflicts
}

// add records the first conflict of each of two clusters.
func (c Conflicts) add(holder, claim Claim) {
	if holder.Cluster == claim.Cluster {
		return
	}
	if _, known := c.Lost[claim.Cluster]; !known {
		c.Lost[claim.Cluster] = holder
	}
	if _, known := c.Contested[holder.Cluster]; !known && holder.Relayed() {
		c.Contested[holder.Cluster] = claim
	}
}

// Usable returns the allocation CIDRs by cluster, none for clusters that may not allocate
// because of a conflict.
func (c Conflicts) Usable(claims []Claim) clustersetip.Allocations {
	cidrs := map[string][]string{}
	for _, claim := range claims {
		cidrs[claim.Cluster] = claim.CIDRs
		if _, lost := c.Lost[claim.Cluster]; lost {
			cidrs[claim.Cluster] = nil
		}
	}
	return clustersetip.NewAllocations(cidrs)
}

// Of returns the conflicts of one cluster.
func (c Conflicts) Of(cluster string) Conflict {
	var conflict Conflict
	if claim, ok := c.Lost[cluster]; ok {
		conflict.Lost = &claim
	}
	if claim, ok := c.Contested[cluster]; ok {
		conflict.Contested = &claim
	}
	return conflict
}

// Conflict is what [Conflicts] has about one cluster; nil for nothing.
type Conflict struct{ Lost, Contested *Claim }

// ConflictOf returns the conflict of a claim that need not be one of the claims.
func ConflictOf(claim Claim, claims []Claim) Conflict {
	others := slices.DeleteFunc(slices.Clone(claims), func(other Claim) bool { return other.Cluster == claim.Cluster })
	return NewConflicts(append(others, claim)).Of(claim.Cluster)
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

func (a allocated) overlapping(cidr netip.Prefix) []holding {
	from, to := a.search(cidr)
	return a[from:to]
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
	switch {
	case err != nil && claim.Relayed(): // the hub may have written anything
		return fmt.Sprintf("allocation CIDRs that hub %q reports for cluster %q are invalid", claim.Hub, claim.Cluster)
	case err != nil:
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
	change := "add them to"
	if len(assigned) == 0 {
		change = fmt.Sprintf("replace %q with them in", clusterset.MemberSecretNoAllocationCIDRs)
	}
	return fmt.Sprintf("cluster %q claims allocation CIDRs %v that its member Secret does not assign to it, and has no allocation CIDR in the view of this cluster: "+
		"shared ClusterSet IPs of it in the allocation CIDRs of other clusters are not believed, those in no allocation CIDR are; "+
		"correct its ClusterClaim %s or the flag --clusterset-ip-cidr of its mcs-apiserver, or, if it should have them, %s %s in the member Secret",
		claim.Cluster, outside, multicluster.ClusterSetIPCIDRClaim, change, clusterset.MemberSecretAllocationCIDRs)
}

// RefusedByHub describes that a hub refuses the allocation CIDRs of a cluster that it
// relays, which has none here either.
func RefusedByHub(claim Claim) string {
	return fmt.Sprintf("hub %q refuses the allocation CIDRs that cluster %q claims, and the cluster has none in the view of this cluster either: see Member %q in cluster %q",
		claim.Hub, claim.Cluster, claim.Cluster, claim.Hub)
}

// NotAssigned returns the condition of a cluster whose claim is [Unassigned].
func NotAssigned(message string) *metav1.Condition {
	return &metav1.Condition{Type: clusterset.MemberClusterSetIP, Status: metav1.ConditionFalse, Reason: clusterset.ReasonNotAssigned, Message: message}
}

// Condition returns whether a cluster can allocate shared ClusterSet IPs, nil if
// it has no allocation CIDRs.
func Condition(claim Claim, conflict Conflict, problem string) *metav1.Condition {
	condition := &metav1.Condition{Type: clusterset.MemberClusterSetIP, Status: metav1.ConditionFalse}
	switch {
	case problem != "":
		condition.Reason, condition.Message = "Invalid", problem
	case len(claim.CIDRs) == 0:
		return nil
	case conflict.Lost != nil:
		condition.Reason = "Overlaps"
		condition.Message = fmt.Sprintf("allocation CIDRs %s overlap %s, which %s", describe(claim), describe(*conflict.Lost), resolution(claim, *conflict.Lost))
	case conflict.Contested != nil:
		condition.Status, condition.Reason = metav1.ConditionTrue, "Contested"
		condition.Message = fmt.Sprintf("allocation CIDRs %s are used, but %s overlap and are not: %s",
			describe(claim), describe(*conflict.Contested), correction(claim, *conflict.Contested))
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, "Allocates"
		condition.Message = fmt.Sprintf("allocation CIDRs %s do not overlap those of other clusters", strings.Join(claim.CIDRs, ","))
	}
	return condition
}

// describe names CIDRs with their cluster, and the hub if nothing but the hub says so.
func describe(claim Claim) string {
	text := fmt.Sprintf("%s of cluster %q", strings.Join(claim.CIDRs, ","), claim.Cluster)
	if claim.Relayed() {
		text += fmt.Sprintf(" (relayed by hub %q)", claim.Hub)
	}
	return text
}

// resolution describes why a claim takes precedence over another, and what to do.
func resolution(claim, winner Claim) string {
	switch {
	case !claim.Relayed():
		return fmt.Sprintf("joined earlier: choose another CIDR in cluster %q, with `kubectl patch clusterclaim %s --type=merge -p '{\"spec\":{\"value\":\"CIDR\"}}'`, or with the flag --clusterset-ip-cidr of mcs-apiserver if it is set there",
			claim.Cluster, multicluster.ClusterSetIPCIDRClaim)
	case !winner.Relayed():
		return "takes precedence because it is not relayed: " + correction(claim, winner)
	}
	return "takes precedence: " + correction(claim, winner)
}

// correction describes how to settle which of two clusters has CIDRs, if a hub says so.
func correction(a, b Claim) string {
	var hubs []string
	for _, claim := range []Claim{a, b} {
		if claim.Relayed() {
			hubs = append(hubs, fmt.Sprintf("%q", claim.Hub))
		}
	}
	slices.Sort(hubs)
	return fmt.Sprintf("choose other CIDRs for one of the clusters, or, if a hub reports wrong ones, correct hub %s, "+
		"or create a member Secret with the right %s for the relayed cluster in this cluster",
		strings.Join(slices.Compact(hubs), " or "), clusterset.MemberSecretAllocationCIDRs)
}
