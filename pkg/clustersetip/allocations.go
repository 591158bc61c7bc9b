// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"net/netip"
	"slices"
)

// Allocations are the allocation CIDRs of all members. The zero value has none.
type Allocations struct {
	byCluster map[string][]netip.Prefix
	// all are the CIDRs of all members, and lengths those of their prefixes: an address is
	// looked up once for each length, however many CIDRs there are.
	all     map[netip.Prefix]bool
	lengths []int
}

// NewAllocations parses the allocation CIDRs of all members, by cluster ID. A member whose
// CIDRs are invalid has none.
func NewAllocations(cidrs map[string][]string) Allocations {
	a := Allocations{byCluster: map[string][]netip.Prefix{}, all: map[netip.Prefix]bool{}}
	for cluster, texts := range cidrs {
		parsed, _ := ParseCIDRs(texts)
		a.byCluster[cluster] = parsed
		for _, cidr := range parsed {
			a.all[cidr.Masked()] = true
			if !slices.Contains(a.lengths, cidr.Bits()) {
				a.lengths = append(a.lengths, cidr.Bits())
			}
		}
	}
	return a
}

// Of returns the allocation CIDRs of a cluster.
func (a Allocations) Of(cluster string) []netip.Prefix { return a.byCluster[cluster] }

// Believes reports whether a cluster can have made the decision that another one says it
// made: no address is in the allocation CIDR of another member. Addresses that are in no
// allocation CIDR may have been allocated before that was changed, or by a cluster that
// left: its allocation CIDR is not assigned to another one as long as a service has an
// address in it.
func (a Allocations) Believes(decision *Decision) bool {
	own := a.Of(decision.DecidedBy)
	return !slices.ContainsFunc(addresses(decision), func(addr netip.Addr) bool { return !contains(own, addr) && a.allocated(addr) })
}

// allocated reports whether an address is in the allocation CIDR of any member.
func (a Allocations) allocated(addr netip.Addr) bool {
	return slices.ContainsFunc(a.lengths, func(length int) bool {
		cidr, err := addr.Prefix(length)
		return err == nil && a.all[cidr] // a length of the other IP family is an error
	})
}

func contains(cidrs []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(cidrs, func(cidr netip.Prefix) bool { return cidr.Contains(addr) })
}
