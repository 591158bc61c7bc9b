// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
)

const (
	// maxTargets is how many endpoints of a Service are asked at a port at a time, and at
	// how many ports.
	maxTargets = 3
	// maxTurns is in how many turns different endpoints are asked before one that answered
	// counts as silent.
	maxTurns = 3
)

// anywhere are the CIDRs of endpoints that are not limited: those of this cluster.
var anywhere = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// targets returns the addresses of some ready endpoints, by TCP port, others in every turn,
// and how many turns it takes to ask all of them, maxTurns at most. Where an endpoint answered
// last is the first: nobody may listen at other ports. Only addresses in the allowed CIDRs are
// used: a member must not be able to make this cluster connect to any others.
func targets(exported []*clustersetv1alpha1.ExportedEndpointSlice, allowed []netip.Prefix, answered netip.AddrPort, turn int) (chosen [][]netip.AddrPort, turns int) {
	// A member may export every port of very many endpoints: what is not asked is not combined.
	type source struct {
		addresses []netip.Addr
		ports     []uint16
	}
	var sources []source
	ports := sets.New[uint16]()
	for _, slice := range exported {
		if found := addresses(slice.Spec.Endpoints, allowed); len(found) > 0 {
			sources = append(sources, source{found, tcpPorts(slice.Spec.Ports)})
			ports.Insert(sources[len(sources)-1].ports...)
		}
	}
	turnsOfPorts := turnsOf(len(ports))
	for _, port := range some(sets.List(ports), answered.Port(), maxTargets, turn) {
		var all []netip.AddrPort
		for _, source := range sources {
			if !slices.Contains(source.ports, port) {
				continue
			}
			for _, address := range source.addresses {
				all = append(all, netip.AddrPortFrom(address, port))
			}
		}
		slices.SortFunc(all, netip.AddrPort.Compare)
		all = slices.Compact(all)
		chosen = append(chosen, some(all, answered, maxTargets, turn/turnsOfPorts))
		turns = max(turns, turnsOfPorts*turnsOf(len(all)))
	}
	return chosen, min(turns, maxTurns)
}

// turnsOf returns how many turns it takes to ask all of some, if one is asked in every turn.
func turnsOf(all int) int { return max(1, (all-1+maxTargets-2)/(maxTargets-1)) }

// some returns up to limit of all, which are sorted: the first, if it exists, and others in
// every turn. Pods of one node have addresses next to each other, so these are spread.
func some[T comparable](all []T, first T, limit, turn int) []T {
	var chosen []T
	if at := slices.Index(all, first); at >= 0 {
		chosen, all = append(chosen, first), slices.Concat(all[:at], all[at+1:])
	}
	limit -= len(chosen)
	stride := strideOf(len(all))
	for i := range min(limit, len(all)) {
		chosen = append(chosen, all[(turn*limit+i)*stride%len(all)])
	}
	return chosen
}

// strideOf returns the distance at which numbers below n are visited, each of them once. It is
// not close to 1, or to n if that is possible.
func strideOf(n int) int {
	stride := max(1, n*5/8)
	for greatestDivisor(stride, n) > 1 {
		stride++
	}
	return stride
}

// greatestDivisor returns the greatest number that divides both.
func greatestDivisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// addresses returns those of ready endpoints that are allowed.
func addresses(endpoints []discoveryv1.Endpoint, allowed []netip.Prefix) []netip.Addr {
	var found []netip.Addr
	for _, endpoint := range endpoints {
		if !ptr.Deref(endpoint.Conditions.Ready, true) || len(endpoint.Addresses) == 0 {
			continue
		}
		address, err := netip.ParseAddr(endpoint.Addresses[0])
		if err == nil && validation.IsEndpointAddress(endpoint.Addresses[0]) && contains(allowed, address) {
			found = append(found, address)
		}
	}
	return found
}

// ofFamilies returns the CIDRs of some IP families, of all if there are none.
func ofFamilies(cidrs []netip.Prefix, families []corev1.IPFamily) []netip.Prefix {
	if len(families) == 0 {
		return cidrs
	}
	var found []netip.Prefix
	for _, cidr := range cidrs {
		family := corev1.IPv6Protocol
		if cidr.Addr().Unmap().Is4() {
			family = corev1.IPv4Protocol
		}
		if slices.Contains(families, family) {
			found = append(found, cidr)
		}
	}
	return found
}

func contains(allowed []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(allowed, func(prefix netip.Prefix) bool { return prefix.Contains(address.Unmap()) })
}

// tcpPorts returns the TCP ports of endpoints.
func tcpPorts(ports []discoveryv1.EndpointPort) []uint16 {
	var numbers []uint16
	for _, port := range ports {
		number := ptr.Deref(port.Port, 0)
		if ptr.Deref(port.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP && number > 0 && number <= 65535 {
			numbers = append(numbers, uint16(number))
		}
	}
	return numbers
}
