// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"maps"
	"net/netip"
	"slices"
)

// Networks are the networks of this cluster, in which endpoints of other clusters
// cannot be. A nil value has none.
type Networks struct {
	nodes          map[netip.Addr]struct{}
	services, pods prefixes
}

// NewNetworks returns networks: the addresses of all Nodes, the Service CIDRs, and
// the Pod CIDRs of the Nodes.
func NewNetworks(nodes []netip.Addr, services, pods []netip.Prefix) *Networks {
	n := &Networks{nodes: map[netip.Addr]struct{}{}, services: newPrefixes(services), pods: newPrefixes(pods)}
	for _, address := range nodes {
		n.nodes[address.Unmap().WithZone("")] = struct{}{}
	}
	return n
}

// Equal reports whether two values are the same networks.
func (n *Networks) Equal(other *Networks) bool {
	if n == nil || other == nil {
		return n == other
	}
	return maps.Equal(n.nodes, other.nodes) && n.services.equal(other.services) && n.pods.equal(other.pods)
}

// describe returns what an address is in this cluster, and an empty string if it
// is not in it. Pod CIDRs within shared ones do not count: the clusters have a
// common Pod network.
func (n *Networks) describe(address netip.Addr, shared []netip.Prefix) string {
	if n == nil {
		return ""
	}
	if _, ok := n.nodes[address]; ok {
		return "address of a Node of this cluster"
	}
	if prefix, ok := n.services.find(address); ok {
		return "in the Service CIDR " + prefix.String() + " of this cluster"
	}
	within := func(prefix netip.Prefix) func(netip.Prefix) bool {
		return func(shared netip.Prefix) bool {
			return shared.Bits() <= prefix.Bits() && shared.Contains(prefix.Addr())
		}
	}
	if prefix, ok := n.pods.find(address); ok && !slices.ContainsFunc(shared, within(prefix)) {
		return "in the Pod CIDR " + prefix.String() + " of this cluster"
	}
	return ""
}

// prefixes are CIDRs by their length. A cluster has a Pod CIDR per Node, but only a
// few lengths.
type prefixes map[int]map[netip.Prefix]struct{}

func newPrefixes(list []netip.Prefix) prefixes {
	p := prefixes{}
	for _, prefix := range list {
		if p[prefix.Bits()] == nil {
			p[prefix.Bits()] = map[netip.Prefix]struct{}{}
		}
		p[prefix.Bits()][prefix.Masked()] = struct{}{}
	}
	return p
}

// find returns a prefix that contains the address.
func (p prefixes) find(address netip.Addr) (netip.Prefix, bool) {
	for bits, known := range p {
		prefix, err := address.Prefix(bits)
		if _, ok := known[prefix]; ok && err == nil {
			return prefix, true
		}
	}
	return netip.Prefix{}, false
}

func (p prefixes) equal(other prefixes) bool {
	return maps.EqualFunc(p, other, func(a, b map[netip.Prefix]struct{}) bool { return maps.Equal(a, b) })
}
