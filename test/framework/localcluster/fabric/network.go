// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"fmt"
)

// Network is the network of one cluster: its nodes and its addresses.
type Network struct {
	// Cluster is the name of the cluster.
	Cluster string
	// Nodes are the nodes of the cluster. The first one also runs the control plane.
	Nodes  []*Node
	fabric *Fabric
	number int
	dir    string
}

// ControlPlane returns the node that also runs the control plane.
func (n *Network) ControlPlane() *Node { return n.Nodes[0] }

// Node returns a node by its name.
func (n *Network) Node(name string) (*Node, error) {
	for _, node := range n.Nodes {
		if node.Name() == name {
			return node, nil
		}
	}
	return nil, fmt.Errorf("cluster %q has no node %q: its nodes are node-1 to node-%d", n.Cluster, name, len(n.Nodes))
}

// PodCIDRs returns the Pod networks of the cluster.
func (n *Network) PodCIDRs() []string {
	return []string{fmt.Sprintf("10.%d.0.0/16", 100+n.number), fmt.Sprintf("fd00:100:%d::/64", n.number)}
}

// ServiceCIDRs returns the Service networks of the cluster.
func (n *Network) ServiceCIDRs() []string {
	return []string{fmt.Sprintf("10.%d.0.0/16", 150+n.number), fmt.Sprintf("fd00:150:%d::/112", n.number)}
}

// DNSIPs returns the addresses of the Service of the cluster's DNS server.
func (n *Network) DNSIPs() []string {
	return []string{fmt.Sprintf("10.%d.0.10", 150+n.number), fmt.Sprintf("fd00:150:%d::a", n.number)}
}

// KillAll kills all processes in the network namespaces of the cluster.
func (n *Network) KillAll() error {
	var errs []error
	for _, node := range n.Nodes {
		errs = append(errs, node.killAll())
	}
	return errors.Join(errs...)
}
