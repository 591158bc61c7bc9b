// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"cmp"
	"net/netip"
	"slices"
)

// Claims tells which service an address belongs to.
//
// Normally an address is held for one service only: whoever allocates leaves
// out what it knows to be held, and what was until a moment ago (see
// [Quarantine]). But news may take longer than that: a cluster adopts a decision
// at the very moment at which the last other export that holds to it goes, and
// the address, which looks free, is given to another service before that is
// heard. As soon as it is, the older decision keeps the address, and the other is
// void: its service gets another address. That the older one keeps it means that
// an address that all clusters have agreed on is never lost.
type Claims struct {
	owner map[netip.Addr]string // of contested addresses only
}

// NewClaims takes the exports of all services that a cluster knows of, its own
// included, by namespace/name. The time it takes is linear unless addresses
// are contested.
func NewClaims(services map[string][]Export) Claims {
	claims := Claims{owner: map[netip.Addr]string{}}
	holder := map[netip.Addr]string{}
	contested := map[netip.Addr]bool{}
	for key, exports := range services {
		for _, export := range exports {
			for _, addr := range addresses(export.Decision) {
				if other, held := holder[addr]; held && other != key {
					contested[addr] = true
				}
				holder[addr] = key
			}
		}
	}
	if len(contested) > 0 {
		claims.settle(services, contested)
	}
	return claims
}

// settle gives the contested addresses to the oldest decisions, all addresses
// of a decision or none: what belongs to a decision that is void itself is no
// obstacle to another.
func (c Claims) settle(services map[string][]Export, contested map[netip.Addr]bool) {
	type claim struct {
		key      string
		decision *Decision
	}
	var claims []claim
	for key, exports := range services {
		for _, export := range exports {
			if slices.ContainsFunc(addresses(export.Decision), func(addr netip.Addr) bool { return contested[addr] }) {
				claims = append(claims, claim{key, export.Decision})
			}
		}
	}
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(compare(a.decision, b.decision), cmp.Compare(a.key, b.key))
	})
	for _, claim := range claims {
		if c.void(claim.key, claim.decision) {
			continue
		}
		for _, addr := range addresses(claim.decision) {
			c.owner[addr] = claim.key
		}
	}
}

// Standing are the exports of a service without the decisions that are void
// because an address of theirs belongs to another service.
func (c Claims) Standing(key string, exports []Export) []Export {
	standing := slices.Clone(exports)
	for i := range standing {
		if c.void(key, standing[i].Decision) {
			standing[i].Decision = nil
		}
	}
	return standing
}

func (c Claims) void(key string, decision *Decision) bool {
	return slices.ContainsFunc(addresses(decision), func(addr netip.Addr) bool {
		owner, owned := c.owner[addr]
		return owned && owner != key
	})
}

// addresses are those of a decision, which may be nil. What is no address can
// not be allocated either, so it does not count.
func addresses(decision *Decision) []netip.Addr {
	if decision == nil {
		return nil
	}
	var addrs []netip.Addr
	for _, ip := range decision.IPs {
		if addr, err := netip.ParseAddr(ip); err == nil {
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs
}
