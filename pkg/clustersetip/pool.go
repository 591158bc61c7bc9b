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

// Pool are the addresses that a cluster may allocate.
type Pool struct {
	cidrs []netip.Prefix
}

// NewPool makes a pool of CIDRs, the first of which are used up first. They
// should be disjoint from those of all other members.
func NewPool(cidrs []netip.Prefix) Pool {
	var pool Pool
	for _, cidr := range cidrs {
		pool.cidrs = append(pool.cidrs, cidr.Masked())
	}
	return pool
}

// ExhaustedError says that all addresses of an IP family are taken.
type ExhaustedError struct {
	// CIDR has no address left. If the pool has several of the family, it names
	// all of them, separated by commas.
	CIDR string
}

// Error implements error.
func (e *ExhaustedError) Error() string {
	return fmt.Sprintf("no address is left in %s: unexport services, or give the cluster another CIDR", e.CIDR)
}

// Allocate finds a free address for each wanted IP family that the pool has a
// CIDR for, in the order of the families. No families stand for all that the
// pool has. used tells which addresses are taken anywhere in the ClusterSet,
// IPv4 ones not mapped to IPv6.
//
// The search starts at a hash of the key (namespace/name), so that a service
// that comes back tends to get what it had, and another service does not get
// it right away. It ends at the first free address and goes on to the next CIDR
// of the family only when one is full, so that a huge CIDR costs no more than a
// small one.
//
// It fails with an [*ExhaustedError] when a family has no address left.
func (p Pool) Allocate(key string, families []corev1.IPFamily, used func(netip.Addr) bool) ([]string, error) {
	byFamily, own := p.byFamily()
	if len(own) == 0 {
		return nil, fmt.Errorf("the cluster has no CIDR to allocate an address for %s from", key)
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
		addr, found := firstFree(cidrs, hash(key), used)
		if !found {
			return nil, &ExhaustedError{CIDR: join(cidrs)}
		}
		ips = append(ips, addr.String())
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("the cluster has no CIDR of the IP families %v of %s, but only %s", families, key, join(p.cidrs))
	}
	return ips, nil
}

// byFamily are the CIDRs by IP family, and the families in the order of the CIDRs.
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

func firstFree(cidrs []netip.Prefix, start uint64, used func(netip.Addr) bool) (netip.Addr, bool) {
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

// usable is the offset of the first address of a CIDR that may be given, and
// how many there are. The first address is not given, since some take it for
// the network or for any router in it, nor the last of an IPv4 CIDR, which may
// be taken for a broadcast address. CIDRs of one or two addresses have no such
// addresses (RFC 3021, RFC 6164). Of more than 1<<63 addresses the rest is
// left alone.
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

// addressAt is the address of a canonical CIDR at an offset that lies in it,
// so that there is never anything to carry over.
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

// hash must stay the same in all releases, for the sake of services that come
// back after an upgrade.
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
