// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"net/netip"
	"slices"
	"sync"

	corev1listers "k8s.io/client-go/listers/core/v1"
	networkingv1listers "k8s.io/client-go/listers/networking/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
)

// networks are those of this cluster, which members must not direct traffic to.
// Members are read only when they are known.
type networks struct {
	nodes        corev1listers.NodeLister
	serviceCIDRs networkingv1listers.ServiceCIDRLister

	mu      sync.Mutex
	current *exports.Networks
}

// networksChanged handles Nodes and ServiceCIDRs.
func (p *Projection) networksChanged(any) { p.queue.Add(key{kind: networksKey}) }

// syncNetworks tells the members which networks are those of this cluster.
func (p *Projection) syncNetworks() error {
	p.networks.mu.Lock()
	defer p.networks.mu.Unlock()
	known, err := p.networks.read()
	if err != nil {
		return err
	}
	if !known.Equal(p.networks.current) {
		p.networks.current = known
		p.members.SetNetworks(known)
	}
	return nil
}

func (n *networks) read() (*exports.Networks, error) {
	nodes, err := n.nodes.List(everything)
	if err != nil {
		return nil, err
	}
	cidrs, err := n.serviceCIDRs.List(everything)
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	var pods, services []netip.Prefix
	for _, node := range nodes {
		for _, address := range node.Status.Addresses {
			if parsed, err := netip.ParseAddr(address.Address); err == nil { // others are names
				addresses = append(addresses, parsed)
			}
		}
		pods = append(pods, parsePrefixes(slices.Concat(node.Spec.PodCIDRs, []string{node.Spec.PodCIDR}))...)
	}
	for _, cidr := range cidrs {
		services = append(services, parsePrefixes(cidr.Spec.CIDRs)...)
	}
	return exports.NewNetworks(addresses, services, pods), nil
}

// parsePrefixes returns the CIDRs in a list. Those that are not valid do not exist:
// the kube-apiserver validates them.
func parsePrefixes(texts []string) []netip.Prefix {
	var prefixes []netip.Prefix
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}
