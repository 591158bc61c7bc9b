// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Pool is the set of addresses that a cluster may allocate.
type Pool struct {
	cidrs []netip.Prefix
}

// NewPool returns a pool of allocation CIDRs, which are used in their order. They should
// be disjoint from those of all other members.
func NewPool(cidrs []netip.Prefix) Pool {
	var pool Pool
	for _, cidr := range cidrs {
		pool.cidrs = append(pool.cidrs, cidr.Masked())
	}
	return pool
}

// ExhaustedError is returned when all addresses of an IP family are in use.
type ExhaustedError struct {
	// CIDR is the exhausted allocation CIDR. If the pool has several of the family, it
	// lists all of them, separated by commas.
	CIDR string
}

// Error implements error.
func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("allocation CIDR %s is exhausted; withdraw exports, or assign another CIDR to the cluster", e.CIDR)
}

// Allocate returns an unused address for each requested IP family that the pool has a
// CIDR of, in the order of the families. No families mean all families of the pool. used
// reports whether an address is in use in the ClusterSet; IPv4 addresses are not mapped
// to IPv6.
//
// The search starts at a hash of the key (namespace/name), so that a service that is
// exported again tends to get its former address, and other services do not get it right
// away. It continues with the next CIDR of the family only when one is exhausted, so that
// the size of a CIDR does not matter.
//
// It returns an [*ExhaustedError] if a family has no unused address.
func (p Pool) Allocate(key string, families []corev1.IPFamily, used func(netip.Addr) bool) ([]string, error) {
	byFamily, own := p.byFamily()
	if len(own) == 0 {
		return nil, fmt.Errorf("this cluster has no allocation CIDR for %s", key)
	}
	if len(families) == 0 {
		families = own
	}
	var ips []string
	for i, family := range families {
		cidrs := byFamily[family]
		if len(cidrs) == 0 || slices.Contains(families[:i], family) {
			continue
		}
		addr, found := firstUnused(cidrs, hash(key), used)
		if !found {
			return nil, &ExhaustedError{CIDR: join(cidrs)}
		}
		ips = append(ips, addr.String())
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("this cluster has no allocation CIDR of the IP families %v of %s, only %s", families, key, join(p.cidrs))
	}
	return ips, nil
}

// byFamily returns the CIDRs by IP family, and the families in the order of the CIDRs.
func (p Pool) byFamily() (byFamily map[corev1.IPFamily][]netip.Prefix, families []corev1.IPFamily) {
	byFamily = map[corev1.IPFamily][]netip.Prefix{}
	for _, cidr := range p.cidrs {
		family := familyOf(cidr)
		if !slices.Contains(families, family) {
			families = append(families, family)
		}
		byFamily[family] = append(byFamily[family], cidr)
	}
	return byFamily, families
}

func firstUnused(cidrs []netip.Prefix, start uint64, used func(netip.Addr) bool) (netip.Addr, bool) {
	for _, cidr := range cidrs {
		first, count := usable(cidr)
		for i := range count {
			// count is at most 1<<63, so this does not overflow.
			addr := addressAt(cidr, first+(start%count+i)%count)
			if !used(addr) {
				return addr, true
			}
		}
	}
	return netip.Addr{}, false
}

// usable returns the offset of the first address of a CIDR that may be allocated, and
// the number of such addresses. The first address is reserved, since it denotes the
// network or any of its routers, and so is the last of an IPv4 CIDR, the broadcast
// address. CIDRs of one or two addresses have no such addresses (RFC 3021, RFC 6164). At
// most 1<<63 addresses are used.
func usable(cidr netip.Prefix) (first, count uint64) {
	hostBits := cidr.Addr().BitLen() - cidr.Bits()
	switch {
	case hostBits < 2:
		return 0, 1 << hostBits
	case cidr.Addr().Is4():
		return 1, 1<<hostBits - 2
	default:
		return 1, 1<<min(hostBits, 63) - 1
	}
}

// addressAt returns the address of a canonical CIDR at an offset within it, so that no
// carry can occur.
func addressAt(cidr netip.Prefix, offset uint64) netip.Addr {
	if cidr.Addr().Is4() {
		bytes := cidr.Addr().As4()
		binary.BigEndian.PutUint32(bytes[:], binary.BigEndian.Uint32(bytes[:])|uint32(offset))
		return netip.AddrFrom4(bytes)
	}
	bytes := cidr.Addr().As16()
	binary.BigEndian.PutUint64(bytes[8:], binary.BigEndian.Uint64(bytes[8:])|offset)
	return netip.AddrFrom16(bytes)
}

// hash must not change between releases, so that a service keeps its address when it is
// exported again after an upgrade.
func hash(key string) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(key)) // never fails
	return sum.Sum64()
}

func familyOf(cidr netip.Prefix) corev1.IPFamily {
	if cidr.Addr().Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

func join(cidrs []netip.Prefix) string {
	texts := make([]string, 0, len(cidrs))
	for _, cidr := range cidrs {
		texts = append(texts, cidr.String())
	}
	return strings.Join(texts, ", ")
}
