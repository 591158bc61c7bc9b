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

// assign gives every cluster that has none a part of the IPs that are the same in
// all clusters, one that nobody has whom any of them knows. So it does a cluster
// that comes back after somebody else was given its part. What it could not take
// into account is in the warnings.
func assign(clusters []Cluster) ([]Step, []string, error) {
	clusters = slices.Clone(clusters)
	ranges, known := rangesOf(clusters)
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
			a.warnings = append(a.warnings, fmt.Sprintf("context %s: it is not known yet where IPs may be that are the same in all clusters, "+
				"so that it gets no part of them: repeat join when it has joined", c.Context))
			continue
		case len(c.Ranges) == 0:
			continue // it has no such IPs
		}
		parts, err := clustersetip.FreeAllocationCIDRs(a.parse(c.Context, c.Ranges), a.all())
		if err != nil {
			errs = append(errs, fmt.Errorf("context %s: %w", c.Context, err))
			continue
		}
		var texts []string
		for _, part := range parts {
			texts = append(texts, part.String())
		}
		a.taken = append(a.taken, holding{c.UID, parts})
		steps = append(steps, Step{Context: c.Context, Action: AssignIPs, Value: strings.Join(texts, ",")})
	}
	return steps, a.warnings, errors.Join(errs...)
}

// rangesOf are the ranges as the first cluster says that does: they are the same
// in all.
func rangesOf(clusters []Cluster) (ranges []string, known bool) {
	for _, c := range clusters {
		if !c.Unlisted {
			known, ranges = true, c.Ranges
		}
		if len(ranges) > 0 {
			break // another may be too old to have any
		}
	}
	return ranges, known
}

// holding is a part and the cluster that has it.
type holding struct {
	uid   types.UID
	cidrs []netip.Prefix
}

// assignment is who has which part.
type assignment struct {
	taken []holding
	// owns are the clusters, by their places, that keep what they have.
	owns       []bool
	unreadable sets.Set[string]
	warnings   []string
}

// collect finds out what is taken: first by the members, then by those that are
// to join, as far as they do not conflict with anybody before them. It has to be
// done before anything is given away.
func (a *assignment) collect(clusters []Cluster) []error {
	a.owns = make([]bool, len(clusters))
	for i, c := range clusters {
		if c.ClusterSet == "" {
			continue // whom it knows is not in the ClusterSet
		}
		own := a.parse(c.Context, c.CIDRs)
		a.owns[i] = len(own) > 0
		a.taken = append(a.taken, holding{c.UID, own})
		for _, uid := range slices.Sorted(maps.Keys(c.Taken)) {
			a.taken = append(a.taken, holding{uid, a.parse(c.Context, c.Taken[uid])})
		}
	}
	var errs []error
	for i, c := range clusters {
		own := a.parse(c.Context, c.CIDRs)
		if c.ClusterSet != "" || len(own) == 0 {
			continue
		}
		mine, theirs, overlaps := clustersetip.Overlap(own, a.others(c.UID))
		switch {
		case !overlaps:
			a.owns[i] = true
			a.taken = append(a.taken, holding{c.UID, own})
		case !slices.Equal(c.CIDRs, c.Claimed):
			errs = append(errs, fmt.Errorf("context %s: its part of the IPs that are the same in all clusters, %s, overlaps %s, which another cluster has; "+
				"it comes from the flag --clusterset-ip-cidr of mcs-apiserver, which counts more than a claim: change the flag", c.Context, mine, theirs))
		}
	}
	return errs
}

// all are the parts that anybody has.
func (a *assignment) all() []netip.Prefix {
	var cidrs []netip.Prefix
	for _, taken := range a.taken {
		cidrs = append(cidrs, taken.cidrs...)
	}
	return cidrs
}

// others are the parts of all but one cluster: members may still know the one
// that comes back.
func (a *assignment) others(uid types.UID) []netip.Prefix {
	var cidrs []netip.Prefix
	for _, taken := range a.taken {
		if taken.uid != uid {
			cidrs = append(cidrs, taken.cidrs...)
		}
	}
	return cidrs
}

// parse reads what it can. A CIDR that is not written as it should be allocates
// nothing, but is better left alone; what is none at all is warned of once.
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
			a.warnings = append(a.warnings, fmt.Sprintf("context %s knows of %q as a part of the IPs that are the same in all clusters, which is no CIDR: it is not taken into account", context, text))
		}
	}
	return cidrs
}
