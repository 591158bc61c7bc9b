// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// Networks are the networks of a cluster.
type Networks struct {
	// PodCIDRs are those of the nodes, as far as nodes have them.
	PodCIDRs []string
	// PodIPs are the addresses of Pods, except for those with the address of their node.
	// There may be more.
	PodIPs []string
	// ServiceCIDRs are empty if they are not known.
	ServiceCIDRs []string
}

// podNetwork is where the Pods of a cluster are.
type podNetwork struct {
	// cidrs are the Pod CIDRs of the nodes, unless Pods show that the network does not use them.
	cidrs []netip.Prefix
	// used is true if a Pod has an address in the CIDRs.
	used bool
	// addresses are those of Pods outside of the CIDRs, sorted.
	addresses []netip.Addr
}

// newPodNetwork concludes from the addresses of Pods whether the network uses the Pod CIDRs of
// the nodes: not every one does.
func newPodNetwork(n Networks) podNetwork {
	var network podNetwork
	cidrs := prefixesOf(n.PodCIDRs)
	for _, text := range n.PodIPs {
		address, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		if contains(cidrs, address) {
			network.used = true
		} else {
			network.addresses = append(network.addresses, address)
		}
	}
	slices.SortFunc(network.addresses, netip.Addr.Compare)
	if network.used || len(network.addresses) == 0 {
		network.cidrs = cidrs
	}
	return network
}

func (n podNetwork) unknown() bool { return len(n.cidrs) == 0 && len(n.addresses) == 0 }

// prefixes returns the CIDRs, and the other addresses as CIDRs.
func (n podNetwork) prefixes() []netip.Prefix {
	prefixes := slices.Clone(n.cidrs)
	for _, address := range n.addresses {
		prefixes = append(prefixes, netip.PrefixFrom(address, address.BitLen()))
	}
	return prefixes
}

// block returns the neighborhood of an address: two clusters that assign addresses in the same
// one have either a common network or two that overlap.
func block(address netip.Addr) netip.Prefix {
	bits := 24
	if address.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(address, bits).Masked()
}

func prefixesOf(texts []string) []netip.Prefix { return parsePrefixes(strings.Join(texts, ",")) }

func contains(cidrs []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(cidrs, func(cidr netip.Prefix) bool { return cidr.Contains(address) })
}

// checkNetworks checks that an address means the same in all clusters.
func checkNetworks(all []Facts) []Finding {
	var findings []Finding
	networks := make([]podNetwork, len(all))
	for i, f := range all {
		networks[i] = newPodNetwork(f.Networks)
		findings = append(findings, checkOwnNetworks(f, networks[i])...)
	}
	for i, f := range all {
		for j, other := range all[:i] {
			contexts := []string{other.Context, f.Context}
			if networks[i].unknown() || networks[j].unknown() {
				continue // said already
			}
			finding, found := overlap(other.Context, f.Context, networks[j], networks[i])
			if !found {
				finding = Finding{Result: OK, Message: "Pod networks do not overlap, as far as they are known"}
			}
			finding.Check, finding.Contexts = CheckNetworks, contexts
			findings = append(findings, finding)
		}
		for j, other := range all {
			if a, b, found := clustersetip.Overlap(networks[j].prefixes(), prefixesOf(f.Networks.ServiceCIDRs)); found && i != j {
				findings = append(findings, Finding{
					CheckNetworks, Problem, []string{other.Context, f.Context},
					fmt.Sprintf("Pods of %s (%s) are in the Service CIDR %s of %s, which takes them for Services of its own and ignores these endpoints", other.Context, a, b, f.Context),
					"use networks that do not overlap",
				})
			}
		}
	}
	return findings
}

const (
	wrongCluster = "traffic reaches the wrong cluster, because addresses are not translated"
	separate     = "use Pod networks that do not overlap"
)

// overlap compares the Pod networks of two clusters.
func overlap(a, b string, of, with podNetwork) (Finding, bool) {
	if x, y, found := clustersetip.Overlap(of.cidrs, with.cidrs); found {
		if of.used && with.used {
			return Finding{Result: Problem, Message: fmt.Sprintf("Pod CIDRs of %s (%s) and %s (%s) overlap, and Pods use them: %s", a, x, b, y, wrongCluster), Remedy: separate}, true
		}
		return Finding{Result: Warning, Message: overlappingCIDRs(a, x, b, y), Remedy: separate}, true
	}
	if finding, found := inside(a, b, of.addresses, with); found {
		return finding, true
	}
	if finding, found := inside(b, a, with.addresses, of); found {
		return finding, true
	}
	return near(a, b, of.addresses, with.addresses)
}

// inside looks for addresses of Pods of one cluster in the Pod CIDRs of another one.
func inside(a, b string, addresses []netip.Addr, network podNetwork) (Finding, bool) {
	for _, address := range addresses {
		for _, cidr := range network.cidrs {
			switch {
			case !cidr.Contains(address):
			case network.used:
				return Finding{Result: Problem, Message: fmt.Sprintf("a Pod of %s (%s) is in a Pod CIDR of %s (%s), and Pods use it: %s", a, address, b, cidr, wrongCluster), Remedy: separate}, true
			default:
				return Finding{Result: Warning, Message: fmt.Sprintf("a Pod of %s (%s) is in a Pod CIDR of %s (%s): if Pods use it, %s", a, address, b, cidr, wrongCluster), Remedy: separate}, true
			}
		}
	}
	return Finding{}, false
}

// near compares the addresses of Pods of two clusters whose nodes have no Pod CIDRs.
func near(a, b string, of, with []netip.Addr) (Finding, bool) {
	theirs, blocks := sets.New(with...), sets.New[netip.Prefix]()
	for _, address := range with {
		blocks.Insert(block(address))
	}
	for _, address := range of {
		if theirs.Has(address) {
			return Finding{Result: Problem, Message: fmt.Sprintf("Pods of %s and %s have the same address %s: %s", a, b, address, wrongCluster), Remedy: separate}, true
		}
	}
	for _, address := range of {
		if blocks.Has(block(address)) {
			return Finding{
				Result: Warning, Message: fmt.Sprintf("Pods of both %s and %s have addresses in %s: if these are two networks, %s", a, b, block(address), wrongCluster),
				Remedy: separate + ", unless the clusters have a common one, which assigns every address once",
			}, true
		}
	}
	return Finding{}, false
}

// checkOwnNetworks checks the networks of one cluster.
func checkOwnNetworks(f Facts, network podNetwork) []Finding {
	var findings []Finding
	contexts := []string{f.Context}
	if network.unknown() {
		findings = append(findings, Finding{CheckNetworks, NotChecked, contexts, "where its Pods are is not known: its nodes have no Pod CIDR, and no Pod has an address of its own", "make sure that its Pod network does not overlap with those of the others"})
	}
	if f.Membership == nil {
		return findings
	}
	described := append(slices.Clone(network.prefixes()), prefixesOf(f.Networks.ServiceCIDRs)...)
	if a, b, found := clustersetip.Overlap(described, prefixesOf(f.Membership.Ranges)); found {
		findings = append(findings, Finding{CheckNetworks, Problem, contexts, fmt.Sprintf("%s, which Pods or Services of the cluster use, is in the ClusterSet IP range %s", a, b), "change --clusterset-ip-range in all clusters"})
	}
	known := *f.Membership
	known.PodCIDRs = nil
	for _, cidr := range network.cidrs {
		known.PodCIDRs = append(known.PodCIDRs, cidr.String())
	}
	if warning, found := outsideAllowed(known); found {
		findings = append(findings, inContext(Finding{Check: CheckNetworks, Result: Warning, Message: warning}, []Facts{f}))
	}
	allowed := parsePrefixes(known.AllowedCIDRs)
	if i := slices.IndexFunc(network.addresses, func(address netip.Addr) bool { return !contains(allowed, address) }); i >= 0 && len(allowed) > 0 {
		findings = append(findings, Finding{CheckNetworks, Warning, contexts, fmt.Sprintf("a Pod has the address %s, which is not in --allowed-cidrs %s", network.addresses[i], known.AllowedCIDRs),
			"endpoints outside of these are not imported by the other clusters"})
	}
	return findings
}
