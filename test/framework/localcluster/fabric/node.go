// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

// MaxNodes is the maximum number of nodes of a cluster, and MaxClusters that of clusters. Both
// are limited by the numbering of the networks.
const (
	MaxNodes    = 4
	MaxClusters = 50
)

// Node is the network of one node: its namespace, its addresses and its routes.
type Node struct {
	network *Network
	number  int
}

// Name returns the name of the node. It is the same in every cluster, as is common: a node of
// one cluster must not be mistaken for a node of another.
func (n *Node) Name() string { return fmt.Sprintf("node-%d", n.number+1) }

// namespace returns the network namespace of the node. The dot keeps it distinct from the
// namespace of any other cluster.
func (n *Node) namespace() string {
	name := n.network.fabric.namespacePrefix() + n.network.Cluster
	if n.number > 0 {
		name += "." + n.Name()
	}
	return name
}

// run runs a command in the network namespace of the node.
func (n *Node) run(command ...string) error { return in(n.namespace(), command...) }

// host numbers the nodes of all clusters.
func (n *Node) host() int { return 10 + n.network.number + MaxClusters*n.number }

// IPs returns the addresses of the node.
func (n *Node) IPs() []string {
	return []string{fmt.Sprintf("10.250.%d.%d", n.network.fabric.Subnet, n.host()), fmt.Sprintf("fd00:250:%d::%d", n.network.fabric.Subnet, n.host())}
}

// PodCIDRs returns the networks of the Pods of the node.
func (n *Node) PodCIDRs() []string {
	return []string{
		fmt.Sprintf("10.%d.%d.0/18", 100+n.network.number, n.number<<6),
		fmt.Sprintf("fd00:100:%d:0:%d::/80", n.network.number, n.number),
	}
}

// Daemon returns a command as a daemon in the network namespace of the node.
func (n *Node) Daemon(command process.Command) process.Daemon {
	command.Args = append([]string{"--net=/run/netns/" + n.namespace(), "--", command.Path}, command.Args...)
	command.Path = "nsenter"
	return process.Daemon{Command: command, PIDFile: filepath.Join(n.network.dir, command.Name+".pid")}
}

// killAll kills all processes in the network namespace of the node.
func (n *Node) killAll() error {
	if !namespaceExists(n.namespace()) {
		return nil
	}
	output, err := exec.Command("ip", "netns", "pids", n.namespace()).Output()
	if err != nil {
		return fmt.Errorf("list processes in network namespace %s: %w", n.namespace(), err)
	}
	for _, field := range strings.Fields(string(output)) {
		if pid, err := strconv.Atoi(field); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return nil
}

// connect creates the network namespace of the node and connects it to the switch.
func (n *Node) connect() error {
	namespace, fabric, port := n.namespace(), n.network.fabric.namespace(), fmt.Sprintf("node%d", n.host())
	inNode := func(command ...string) func() error { return func() error { return in(namespace, command...) } }
	inFabric := func(command ...string) func() error { return func() error { return in(fabric, command...) } }
	steps := []func() error{
		func() error { return ip("netns", "add", namespace) },
		func() error { return prepareNamespace(namespace) },
		inFabric("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", "/run/netns/"+namespace),
		inFabric("ip", "link", "set", port, "master", "switch", "up"),
		inNode("ip", "address", "add", n.IPs()[0]+"/24", "dev", "eth0"),
		inNode("ip", "address", "add", n.IPs()[1]+"/64", "dev", "eth0", "nodad"),
		inNode("ip", "link", "set", "eth0", "up"),
		// Packets to unknown addresses end in the fabric. Without a default route,
		// packets to the address of a Service would be rejected before kube-proxy's
		// rules apply.
		inNode("ip", "route", "add", "default", "via", fmt.Sprintf("10.250.%d.2", n.network.fabric.Subnet)),
		inNode("ip", "route", "add", "default", "via", fmt.Sprintf("fd00:250:%d::2", n.network.fabric.Subnet)),
	}
	return all(steps...)
}

// Cut drops all packets from and to the node silently, and Reconnect undoes it. Processes and
// Pods of the node still reach each other.
func (n *Node) Cut() error {
	return inWithInput(n.namespace(), cutTable+`table inet mcs_cut {
		chain ingress { type filter hook prerouting priority raw; iifname "eth0" drop; }
		chain egress { type filter hook postrouting priority 300; oifname "eth0" drop; }
	}`, "nft", "-f", "-")
}

// Reconnect undoes Cut.
func (n *Node) Reconnect() error {
	return inWithInput(n.namespace(), cutTable, "nft", "-f", "-")
}

// cutTable removes the rules of Cut, whether or not they exist.
const cutTable = "table inet mcs_cut\ndelete table inet mcs_cut\n"
