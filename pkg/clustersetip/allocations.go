// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"net/netip"
	"slices"
)

// Allocations are the allocation CIDRs of all members, by cluster ID.
type Allocations map[string][]netip.Prefix

// NewAllocations parses the allocation CIDRs of all members. A member whose CIDRs are
// invalid has none.
func NewAllocations(cidrs map[string][]string) Allocations {
	allocations := Allocations{}
	for cluster, texts := range cidrs {
		allocations[cluster], _ = ParseCIDRs(texts)
	}
	return allocations
}

// Believes reports whether a cluster can have made the decision that another one says it
// made: no address is in the allocation CIDR of another member. Addresses that are in no
// allocation CIDR may have been allocated before that was changed, or by a cluster that
// left: its allocation CIDR is not assigned to another one as long as a service has an
// address in it.
func (a Allocations) Believes(decision *Decision) bool {
	own := a[decision.DecidedBy]
	return !slices.ContainsFunc(addresses(decision), func(addr netip.Addr) bool { return !contains(own, addr) && a.allocated(addr) })
}

// allocated reports whether an address is in the allocation CIDR of any member.
func (a Allocations) allocated(addr netip.Addr) bool {
	for _, cidrs := range a {
		if contains(cidrs, addr) {
			return true
		}
	}
	return false
}

func contains(cidrs []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(cidrs, func(cidr netip.Prefix) bool { return cidr.Contains(addr) })
}
