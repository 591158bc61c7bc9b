// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// assignCIDRs assigns free allocation CIDRs to every cluster that has none, and to
// every cluster that joins again after its allocation CIDR was assigned to another
// one. CIDRs of members that any of the clusters knows are not free, and those that it
// recorded count instead of what the member claims; nor are those free in which services
// have a shared ClusterSet IP: the cluster that allocated it may have left. The warnings
// list what could not be taken into account.
func assignCIDRs(clusters []Cluster) ([]Step, []string, error) {
	clusters = slices.Clone(clusters)
	ranges, known := clusterSetIPRanges(clusters)
	for i := range clusters {
		if c := &clusters[i]; c.Unlisted {
			c.Ranges, c.CIDRs = ranges, c.Claimed
		}
	}
	a := assignment{unreadable: sets.New[string]()}
	errs := a.collect(clusters)
	var steps []Step
	for i, c := range clusters {
		switch {
		case a.owns[i]:
			continue
		case c.Unlisted && !known:
			a.warnings = append(a.warnings, fmt.Sprintf("context %q: no allocation CIDR is assigned, because the ClusterSet IP range is not known yet: "+
				"run join again when the cluster has joined", c.Context))
			continue
		case len(c.Ranges) == 0:
			continue // shared ClusterSet IPs are disabled
		}
		ranges := a.parse(c.Context, c.Ranges)
		free, err := clustersetip.FreeAllocationCIDRs(ranges, countIn(ranges, a.all()))
		if err != nil {
			errs = append(errs, fmt.Errorf("context %q: %w", c.Context, err))
			continue
		}
		var texts []string
		for _, cidr := range free {
			texts = append(texts, cidr.String())
		}
		a.taken = append(a.taken, allocation{c.UID, free})
		steps = append(steps, Step{Context: c.Context, Action: AssignCIDRs, Value: strings.Join(texts, ",")})
	}
	return steps, a.warnings, errors.Join(errs...)
}

// clusterSetIPRanges returns the ClusterSet IP ranges of the first cluster that
// has any: they are the same in all clusters. It reports false if no cluster is
// listed.
func clusterSetIPRanges(clusters []Cluster) (ranges []string, known bool) {
	for _, c := range clusters {
		if !c.Unlisted {
			known, ranges = true, c.Ranges
		}
		if len(ranges) > 0 {
			break // clusters with an older release have none
		}
	}
	return ranges, known
}

// allocation is the allocation CIDRs of one cluster.
type allocation struct {
	uid   types.UID
	cidrs []netip.Prefix
}

// assignment collects the allocation CIDRs of all clusters.
type assignment struct {
	taken []allocation
	// held are the shared ClusterSet IPs of services.
	held []netip.Prefix
	// owns has the clusters, by index, that keep their allocation CIDRs.
	owns       []bool
	unreadable sets.Set[string]
	warnings   []string
}

// collect collects the CIDRs that are taken: first those of members, then those
// of joining clusters that do not overlap with any before them. It has to be
// called before CIDRs are assigned.
func (a *assignment) collect(clusters []Cluster) []error {
	a.owns = make([]bool, len(clusters))
	for i, c := range clusters {
		if c.ClusterSet == "" {
			continue // the members that it knows are not in the ClusterSet
		}
		own := a.parse(c.Context, c.CIDRs)
		a.owns[i] = len(own) > 0
		a.taken = append(a.taken, allocation{c.UID, own})
		for _, uid := range slices.Sorted(maps.Keys(c.Taken)) {
			a.taken = append(a.taken, allocation{uid, a.parse(c.Context, c.Taken[uid])})
		}
		for _, id := range slices.Sorted(maps.Keys(c.Members)) {
			a.taken = append(a.taken, allocation{uidOf(clusters, c, id), parseAll(c.Members[id].AllocationCIDRs)})
		}
		for _, ip := range c.SharedIPs {
			if address, err := netip.ParseAddr(ip); err == nil {
				a.held = append(a.held, netip.PrefixFrom(address, address.BitLen()))
			}
		}
	}
	var errs []error
	for i, c := range clusters {
		own := a.parse(c.Context, c.CIDRs)
		if c.ClusterSet != "" || len(own) == 0 {
			continue
		}
		mine, theirs, overlaps := clustersetip.Overlap(own, countIn(a.parse(c.Context, c.Ranges), a.others(c.UID)))
		switch {
		case !overlaps:
			a.owns[i] = true
			a.taken = append(a.taken, allocation{c.UID, own})
		case !slices.Equal(c.CIDRs, c.Claimed):
			errs = append(errs, fmt.Errorf("context %q: allocation CIDR %s overlaps %s of another cluster: "+
				"change the flag --clusterset-ip-cidr of mcs-apiserver, which takes precedence over the claim", c.Context, mine, theirs))
		}
	}
	return errs
}

// all returns what is not free: the allocation CIDRs of all clusters, and the IPs of
// services.
func (a *assignment) all() []netip.Prefix {
	cidrs := slices.Clone(a.held)
	for _, taken := range a.taken {
		cidrs = append(cidrs, taken.cidrs...)
	}
	return cidrs
}

// others returns the allocation CIDRs of all clusters but one: members may still
// know a cluster that joins again.
func (a *assignment) others(uid types.UID) []netip.Prefix {
	var cidrs []netip.Prefix
	for _, taken := range a.taken {
		if taken.uid != uid {
			cidrs = append(cidrs, taken.cidrs...)
		}
	}
	return cidrs
}

// uidOf returns the UID of a member in the view of a cluster, empty if it is unknown.
func uidOf(clusters []Cluster, c Cluster, id string) types.UID {
	if i := slices.IndexFunc(clusters, func(other Cluster) bool { return other.ID == id }); i >= 0 {
		return clusters[i].UID
	}
	return c.Known[id]
}

// countIn returns the CIDRs that are within the ranges of a cluster, all if it has none. The
// cluster ignores others, so that no member can take more than the ranges.
func countIn(ranges, cidrs []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(cidrs, func(cidr netip.Prefix) bool {
		return len(ranges) > 0 && len(clustersetip.Outside([]netip.Prefix{cidr}, ranges)) > 0
	})
}

// parse parses CIDRs. CIDRs in a non-canonical form are not used for allocation,
// but count as taken. Text that is not a CIDR is skipped, with one warning.
func (a *assignment) parse(context string, texts []string) []netip.Prefix {
	var cidrs []netip.Prefix
	for _, text := range texts {
		cidr, err := netip.ParsePrefix(text)
		if err == nil {
			if cidr.Addr().Is4In6() && cidr.Bits() >= 96 {
				cidr = netip.PrefixFrom(cidr.Addr().Unmap(), cidr.Bits()-96)
			}
			cidrs = append(cidrs, cidr.Masked())
			continue
		}
		if !a.unreadable.Has(text) {
			a.unreadable.Insert(text)
			a.warnings = append(a.warnings, fmt.Sprintf("context %q: ignoring invalid allocation CIDR %q of a member", context, text))
		}
	}
	return cidrs
}
