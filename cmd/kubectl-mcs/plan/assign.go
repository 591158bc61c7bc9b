// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

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
	holdings := newHoldings(clusters)
	owns, errs := keepCIDRs(clusters, holdings)
	var steps []Step
	for i, c := range clusters {
		switch {
		case owns[i]:
			continue
		case c.Unlisted && !known:
			holdings.warnings = append(holdings.warnings, fmt.Sprintf("context %q: no allocation CIDR is assigned, because the ClusterSet IP range is not known yet: "+
				"run join again when the cluster has joined", c.Context))
			continue
		case len(c.Ranges) == 0:
			continue // shared ClusterSet IPs are disabled
		}
		ranges := holdings.parse(c.Context, c.Ranges)
		free, err := clustersetip.FreeAllocationCIDRs(ranges, countIn(ranges, holdings.reserved()))
		if err != nil {
			errs = append(errs, fmt.Errorf("context %q: %w%s", c.Context, err, holdings.blamed(ranges)))
			continue
		}
		var texts []string
		for _, cidr := range free {
			texts = append(texts, cidr.String())
		}
		holdings.named[i].claim = free
		steps = append(steps, Step{Context: c.Context, Action: AssignCIDRs, Value: strings.Join(texts, ",")})
	}
	return steps, holdings.warnings, errors.Join(errs...)
}

// keepCIDRs returns the clusters, by index, that keep their allocation CIDRs: members
// that have any, and then joining clusters whose CIDRs do not overlap with any before
// them. What is known about a joining cluster itself does not count against it: members
// may still know a cluster that joins again.
func keepCIDRs(clusters []Cluster, holdings *holdings) (owns []bool, errs []error) {
	owns = make([]bool, len(clusters))
	for i, c := range clusters {
		own := holdings.parse(c.Context, c.CIDRs)
		if c.ClusterSet != "" || len(own) == 0 {
			owns[i] = len(own) > 0
			continue
		}
		reserved := countIn(holdings.parse(c.Context, c.Ranges), holdings.reservedForOthers(holdings.named[i]))
		mine, theirs, overlaps := clustersetip.Overlap(own, reserved)
		switch {
		case !overlaps:
			owns[i], holdings.named[i].claim = true, own
		case !slices.Equal(c.CIDRs, c.Claimed):
			errs = append(errs, fmt.Errorf("context %q: allocation CIDR %s overlaps %s of another cluster: "+
				"change the flag --clusterset-ip-cidr of mcs-apiserver, which takes precedence over the claim", c.Context, mine, theirs))
		}
	}
	return owns, errs
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

// countIn returns the CIDRs that are within the ranges of a cluster, all if it has none. The
// cluster ignores others, so that no member can take more than the ranges.
func countIn(ranges, cidrs []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(cidrs, func(cidr netip.Prefix) bool {
		return len(ranges) > 0 && len(clustersetip.Outside([]netip.Prefix{cidr}, ranges)) > 0
	})
}
