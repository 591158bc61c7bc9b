// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"cmp"
	"net/netip"
	"slices"
)

// Claims determines, in one cluster, which service an address belongs to.
//
// Normally only one service holds an address: a cluster does not allocate addresses
// that are in use or quarantined (see [Quarantine]). But a change may take longer to
// propagate: a cluster adopts a decision at the moment at which the last other export
// with that decision is withdrawn, and the address, which looks available, is allocated
// to another service before the adoption is known. Or a member makes up a decision for an
// address that another service has. Once both are known, one decision keeps the address
// and the other one is void, so that its service gets another address: first, a decision
// that this cluster recorded long ago or, without a record, serves keeps the address, then
// what a cluster says about its own decision rather than what others say about it, and
// then the older one. An address that all clusters agreed on is thus never lost, and a
// member cannot take an address from the cluster that has just allocated it.
type Claims struct {
	owner map[netip.Addr]string // of contested addresses only
}

type claim struct {
	key    string
	export Export
	// rank is lower for claims that this cluster does not give up.
	rank int
}

// Ranks of claims, the best first.
const (
	// recordedLongAgo is what this cluster recorded long ago.
	recordedLongAgo = iota
	// served is what this cluster serves without a record.
	served
	// firsthand is what this cluster recorded just now, or what the cluster that made the
	// decision says.
	firsthand
	// hearsay is what another cluster says about a decision that it did not make.
	hearsay
	disbelieved
)

// rank returns the rank of an export's claim, which is one of the exports of its service.
func rank(local Local, export Export, exports []Export) int {
	own := export.Cluster == local.Cluster
	switch {
	case own && local.settled(export.Decision):
		return recordedLongAgo
	case recordedBy(local.Cluster, exports) == nil && local.serves(export.Decision):
		return served
	case !local.believes(export):
		return disbelieved
	case own || export.Cluster == export.Decision.DecidedBy:
		return firsthand
	}
	return hearsay
}

// NewClaims returns the claims of the exports of all services in all clusters, by
// namespace/name. local returns what this cluster knows about a service besides these; it
// is called for services with contested addresses only. NewClaims takes linear time unless
// addresses are contested.
func NewClaims(services map[string][]Export, local func(key string) Local) Claims {
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
		claims.settle(contesting(services, contested, local))
	}
	return claims
}

// contesting returns the claims to contested addresses.
func contesting(services map[string][]Export, contested map[netip.Addr]bool, local func(key string) Local) []claim {
	var claims []claim
	for key, exports := range services {
		for _, export := range exports {
			if slices.ContainsFunc(addresses(export.Decision), func(addr netip.Addr) bool { return contested[addr] }) {
				claims = append(claims, claim{key, export, rank(local(key), export, exports)})
			}
		}
	}
	return claims
}

// settle assigns the addresses to the decisions by precedence, all addresses of a
// decision or none: a void decision does not keep its other addresses from another one.
func (c Claims) settle(claims []claim) {
	slices.SortFunc(claims, func(a, b claim) int {
		return cmp.Or(a.rank-b.rank, compare(a.export.Decision, b.export.Decision), cmp.Compare(a.key, b.key))
	})
	for _, claim := range claims {
		if c.void(claim.key, claim.export.Decision) {
			continue
		}
		for _, addr := range addresses(claim.export.Decision) {
			c.owner[addr] = claim.key
		}
	}
}

// Standing returns the exports of a service without the decisions that are void because
// one of their addresses belongs to another service.
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

// addresses returns the addresses of a decision, which may be nil. Texts that are not
// addresses are left out.
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
