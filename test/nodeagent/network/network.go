// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network connects Pods: every Pod has a network namespace with one address per family,
// connected to the node through a bridge.
package network

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

const (
	// podInterface is the name of the interface inside a Pod.
	podInterface = "eth0"
	// linkPrefix is the prefix of the interfaces at the bridge.
	linkPrefix = "pod-"
	// alias marks a bridge that an agent created and therefore removes.
	alias = "made-by-node-agent"
)

// Network is the Pod network of a node in the network namespace of the agent.
type Network struct {
	bridge string
	pools  []*Pool
}

// SetUp creates the bridge, unless it exists, and removes leftovers of an agent that was killed
// from this network namespace.
func SetUp(ctx context.Context, bridge string, cidrs []string) (*Network, error) {
	n := &Network{bridge: bridge}
	for _, cidr := range cidrs {
		pool, err := NewPool(cidr)
		if err != nil {
			return nil, err
		}
		n.pools = append(n.pools, pool)
	}
	if err := removePodLinks(ctx); err != nil {
		return nil, fmt.Errorf("remove interfaces of an earlier agent: %w", err)
	}
	link, err := makeBridge(ctx, bridge)
	if err != nil {
		return nil, fmt.Errorf("create bridge %s: %w", bridge, err)
	}
	if err := setSysctls(nodeSysctls(bridge, n.ipv6())); err != nil {
		return nil, err
	}
	if err := routeOnly(); err != nil {
		return nil, err
	}
	if err := runIP(ctx, bridgeCommands(link, n.gateways())); err != nil {
		return nil, fmt.Errorf("set up bridge %s: %w", bridge, err)
	}
	return n, nil
}

// makeBridge creates the bridge unless it exists.
func makeBridge(ctx context.Context, bridge string) (*net.Interface, error) {
	if link, err := net.InterfaceByName(bridge); err == nil {
		return link, nil
	}
	commands := []string{
		"link add dev " + bridge + " type bridge mcast_snooping 0",
		"link set dev " + bridge + " alias " + alias,
	}
	if err := runIP(ctx, commands); err != nil {
		return nil, err
	}
	return net.InterfaceByName(bridge)
}

// Remove removes the bridge if an agent created it. All Pods must be closed.
func (n *Network) Remove(ctx context.Context) error {
	mark, err := linkAlias(ctx, n.bridge)
	if err != nil || mark != alias {
		return err
	}
	return runIP(ctx, []string{"link delete dev " + n.bridge})
}

func (n *Network) gateways() []netip.Prefix {
	var gateways []netip.Prefix
	for _, pool := range n.pools {
		gateways = append(gateways, pool.Gateway())
	}
	return gateways
}

func (n *Network) ipv6() bool {
	for _, pool := range n.pools {
		if pool.prefix.Addr().Is6() {
			return true
		}
	}
	return false
}

// take allocates an address of each family, or none.
func (n *Network) take() ([]netip.Addr, error) {
	var addresses []netip.Addr
	for _, pool := range n.pools {
		address, err := pool.Take()
		if err != nil {
			n.release(addresses)
			return nil, err
		}
		addresses = append(addresses, address)
	}
	return addresses, nil
}

func (n *Network) release(addresses []netip.Addr) {
	for i, address := range addresses {
		n.pools[i].Release(address)
	}
}

// linkName returns the name of the interface at the bridge for a Pod. Linux allows 15
// characters, which is too short for a UID.
func linkName(uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return linkPrefix + hex.EncodeToString(sum[:])[:15-len(linkPrefix)]
}

func removePodLinks(ctx context.Context) error {
	links, err := net.Interfaces()
	if err != nil {
		return err
	}
	var errs []error
	for _, link := range links {
		if strings.HasPrefix(link.Name, linkPrefix) {
			errs = append(errs, removeLink(ctx, link.Name))
		}
	}
	return errors.Join(errs...)
}

// removeLink removes an interface. Linux may be removing it already, because the namespace at its
// other end is gone.
func removeLink(ctx context.Context, name string) error {
	err := runIP(ctx, []string{"link delete dev " + name})
	if err == nil {
		return nil
	}
	if _, absent := net.InterfaceByName(name); absent == nil {
		return err
	}
	return nil
}
