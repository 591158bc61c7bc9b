// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// part is a cluster's part of the addresses for one IP in all clusters.
type part struct {
	cluster   string
	claimedAt time.Time
	cidrs     []string
}

// rival finds a part that overlaps this one and has precedence: that of the
// cluster that joined first. Only one of the two may allocate.
func (p part) rival(others []part) (part, bool) {
	own, err := clustersetip.ParseCIDRs(p.cidrs)
	if err != nil {
		return part{}, false // it allocates nothing
	}
	for _, other := range others {
		theirs, err := clustersetip.ParseCIDRs(other.cidrs)
		if err != nil || other.cluster == p.cluster {
			continue
		}
		first := cmp.Or(byAge(other.claimedAt, p.claimedAt), cmp.Compare(other.cluster, p.cluster)) < 0
		if _, _, overlap := clustersetip.Overlap(own, theirs); overlap && first {
			return other, true
		}
	}
	return part{}, false
}

// outside says what is wrong with a member's part, as seen by this cluster, which
// takes no addresses but those of its own ranges.
func (p part) outside(ranges []netip.Prefix) string {
	cidrs, err := clustersetip.ParseCIDRs(p.cidrs)
	if err != nil {
		return fmt.Sprintf("its part of the ClusterSet's addresses cannot be used: %v", err)
	}
	if outside := clustersetip.Outside(cidrs, ranges); len(outside) > 0 {
		return fmt.Sprintf("%v of its part of the ClusterSet's addresses is not in the range of this cluster, %v, so that such addresses do not count here: "+
			"--clusterset-ip-range has to be the same in all clusters", outside, ranges)
	}
	return ""
}

// condition says whether the cluster can allocate addresses; nil if it has none.
func (p part) condition(others []part, problem string) *metav1.Condition {
	condition := &metav1.Condition{Type: clusterset.MemberClusterSetIP, Status: metav1.ConditionFalse}
	rival, overlaps := p.rival(others)
	switch {
	case problem != "":
		condition.Reason, condition.Message = "Invalid", problem
	case len(p.cidrs) == 0:
		return nil
	case overlaps:
		condition.Reason = "Overlaps"
		condition.Message = fmt.Sprintf("its part of the ClusterSet's addresses, %s, overlaps that of %q, %s, which joined before: give it another (--clusterset-ip-cidr)",
			strings.Join(p.cidrs, ","), rival.cluster, strings.Join(rival.cidrs, ","))
	default:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, "Allocates", "its part of the ClusterSet's addresses is its own"
	}
	return condition
}

// ownPart is that of this cluster.
func (r *Registry) ownPart() part {
	return part{r.identity.ID, r.identity.IDClaimedAt, clustersetip.SplitCIDRs(r.identity.CIDRs)}
}

// findParts finds those of this cluster and of all that take part.
func (r *Registry) findParts() []part {
	all := []part{r.ownPart()}
	for _, peer := range r.peers {
		if peer.verdict.accepted {
			all = append(all, part{peer.spec.id, peer.claimedAt, peer.cidrs})
		}
	}
	for id, route := range r.routes {
		if route.entry != nil {
			all = append(all, part{id, claimOf(route.entry), route.entry.Status.ClusterSetIPCIDRs})
		}
	}
	slices.SortFunc(all, func(a, b part) int { return cmp.Compare(a.cluster, b.cluster) })
	return all
}
