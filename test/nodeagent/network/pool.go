// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"fmt"
	"net/netip"
	"sync"
)

// Pool allocates the addresses of one CIDR in turn, so that a released address is reused as
// late as possible. The first address of the CIDR is the gateway and is never allocated.
type Pool struct {
	prefix  netip.Prefix
	gateway netip.Addr

	mu   sync.Mutex
	last netip.Addr
	used map[netip.Addr]bool
}

// NewPool creates a pool of a CIDR that is large enough for a gateway and a Pod.
func NewPool(cidr string) (*Pool, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil, fmt.Errorf("Pod CIDR %q: %w", cidr, err)
	}
	if prefix.Bits() > prefix.Addr().BitLen()-2 {
		return nil, fmt.Errorf("Pod CIDR %s is too small: use at least a /%d", cidr, prefix.Addr().BitLen()-2)
	}
	prefix = prefix.Masked()
	gateway := prefix.Addr().Next()
	return &Pool{prefix: prefix, gateway: gateway, last: gateway, used: map[netip.Addr]bool{}}, nil
}

// Gateway returns the address of the bridge with the prefix length of the CIDR.
func (p *Pool) Gateway() netip.Prefix { return netip.PrefixFrom(p.gateway, p.prefix.Bits()) }

// Take allocates an address until it is released.
func (p *Pool) Take() (netip.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// One of the next len(used)+1 addresses is free, unless all are in use.
	for range len(p.used) + 1 {
		p.last = p.after(p.last)
		if !p.used[p.last] {
			p.used[p.last] = true
			return p.last, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("all addresses of %s are in use", p.prefix)
}

// Release releases an address.
func (p *Pool) Release(address netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, address)
}

// after returns the next address for a Pod. The last address of an IPv4 network is its
// broadcast address.
func (p *Pool) after(address netip.Addr) netip.Addr {
	next := address.Next()
	if !p.prefix.Contains(next) || next.Is4() && !p.prefix.Contains(next.Next()) {
		return p.gateway.Next()
	}
	return next
}
