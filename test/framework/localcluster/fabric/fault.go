// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Fault impairs the link between two clusters in both directions, unless it is OneWay.
type Fault struct {
	Clusters [2]string
	// OneWay impairs packets from the first cluster to the second only.
	OneWay bool `json:",omitempty"`
	// Cut drops all packets silently.
	Cut bool `json:",omitempty"`
	// Delay is added to every packet.
	Delay time.Duration `json:",omitempty"`
	// Loss is the share of packets that are dropped, in percent.
	Loss int `json:",omitempty"`
}

// Validate returns an error if the fault is impossible.
func (f Fault) Validate() error {
	switch {
	case f.Clusters[0] == f.Clusters[1]:
		return errors.New("a link connects two different clusters")
	case f.Loss < 0 || f.Loss > 100:
		return fmt.Errorf("invalid packet loss %d: must be between 0 and 100 percent", f.Loss)
	case f.Delay < 0:
		return fmt.Errorf("invalid delay %s: must not be negative", f.Delay)
	}
	return nil
}

// Concerns reports whether the fault is one of the link between two clusters.
func (f Fault) Concerns(a, b string) bool {
	return f.Clusters == [2]string{a, b} || f.Clusters == [2]string{b, a}
}

// Impairs reports whether the fault has an effect: a zero fault has none.
func (f Fault) Impairs() bool { return f.Cut || f.Delay > 0 || f.Loss > 0 }

// ApplyFaults configures the cluster's end of its links to all peers.
func (n *Network) ApplyFaults(ctx context.Context, peers []*Network, faults []Fault) error {
	for _, node := range n.Nodes {
		if err := node.applyFaults(ctx, peers, faults); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) applyFaults(ctx context.Context, peers []*Network, faults []Fault) error {
	var drops []string
	for _, peer := range peers {
		if peer.Cluster == n.network.Cluster {
			continue
		}
		var fault Fault
		for _, candidate := range faults {
			if candidate.Concerns(n.network.Cluster, peer.Cluster) {
				fault = candidate
			}
		}
		drops = append(drops, dropRules(fault, peer)...)
		delay := fault.Delay
		if fault.OneWay && fault.Clusters[0] == peer.Cluster {
			delay = 0
		}
		for _, node := range peer.Nodes {
			if err := (slowLink{n, node}).delay(ctx, delay); err != nil {
				return err
			}
		}
	}
	rules := []string{"table inet mcs_faults", "delete table inet mcs_faults", "table inet mcs_faults {"}
	// After kube-proxy's rules, so that the destination is the one that kube-proxy chose.
	for _, hook := range []string{"input", "forward", "output"} {
		rules = append(rules, "chain "+hook+" { type filter hook "+hook+" priority 10; policy accept;")
		rules = append(rules, drops...)
		rules = append(rules, "}")
	}
	return inWithInput(n.namespace(), strings.Join(append(rules, "}"), "\n"), "nft", "-f", "-")
}

// dropRules returns rules that drop packets to and from a peer if the link is
// cut, and a share of the packets from the peer if the link loses packets: the
// other end does the same for the other direction.
func dropRules(fault Fault, peer *Network) []string {
	if fault.OneWay && fault.Clusters[1] == peer.Cluster {
		return nil // the peer drops what it receives
	}
	var rules []string
	for family, keyword := range []string{"ip", "ip6"} {
		addresses := []string{peer.PodCIDRs()[family]}
		for _, node := range peer.Nodes {
			addresses = append(addresses, node.IPs()[family])
		}
		networks := "{ " + strings.Join(addresses, ", ") + " }"
		switch {
		case fault.Cut && fault.OneWay:
			rules = append(rules, keyword+" saddr "+networks+" drop")
		case fault.Cut:
			rules = append(rules, keyword+" saddr "+networks+" drop", keyword+" daddr "+networks+" drop")
		case fault.Loss > 0:
			rules = append(rules, fmt.Sprintf("%s saddr %s numgen random mod 100 <= %d drop", keyword, networks, fault.Loss-1))
		}
	}
	return rules
}
