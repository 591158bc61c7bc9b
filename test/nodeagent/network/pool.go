// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"net/netip"
	"sync"
)

// Pool hands out the addresses of one CIDR in turn, so that an address that
// was given back is used again as late as possible. The first address of the
// CIDR is the gateway and never handed out.
type Pool struct {
	prefix  netip.Prefix
	gateway netip.Addr

	mu   sync.Mutex
	last netip.Addr
	used map[netip.Addr]bool
}

// NewPool makes a pool of a CIDR that is large enough for a gateway and a Pod.
func NewPool(cidr string) (*Pool, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil, fmt.Errorf("Pod CIDR %q: %w", cidr, err)
	}
	if prefix.Bits() > prefix.Addr().BitLen()-2 {
		return nil, fmt.Errorf("Pod CIDR %s is too small: give at least a /%d", cidr, prefix.Addr().BitLen()-2)
	}
	prefix = prefix.Masked()
	gateway := prefix.Addr().Next()
	return &Pool{prefix: prefix, gateway: gateway, last: gateway, used: map[netip.Addr]bool{}}, nil
}

// Gateway is the address of the bridge, with the length of the CIDR.
func (p *Pool) Gateway() netip.Prefix { return netip.PrefixFrom(p.gateway, p.prefix.Bits()) }

// Take hands out an address until it is given back.
func (p *Pool) Take() (netip.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Among one more than are used, one is free, or there are no more at all.
	for range len(p.used) + 1 {
		p.last = p.after(p.last)
		if !p.used[p.last] {
			p.used[p.last] = true
			return p.last, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("all addresses of %s are in use", p.prefix)
}

// Release gives an address back.
func (p *Pool) Release(address netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, address)
}

// after is the next address that a Pod may have. The last address of an IPv4
// network is its broadcast address.
func (p *Pool) after(address netip.Addr) netip.Addr {
	next := address.Next()
	if !p.prefix.Contains(next) || next.Is4() && !p.prefix.Contains(next.Next()) {
		return p.gateway.Next()
	}
	return next
}
