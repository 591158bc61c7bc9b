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

// Network is the network of one cluster: its namespace, its addresses and its routes.
type Network struct {
	// Cluster is the name of the cluster.
	Cluster string
	fabric  *Fabric
	number  int
	dir     string
}

func (n *Network) namespace() string { return n.fabric.namespacePrefix() + n.Cluster }

// run runs a command in the network namespace of the cluster.
func (n *Network) run(command ...string) error { return in(n.namespace(), command...) }

// NodeIPs returns the addresses of the cluster's only node and of its kube-apiserver.
func (n *Network) NodeIPs() []string {
	return []string{fmt.Sprintf("10.250.%d.%d", n.fabric.Subnet, 10+n.number), fmt.Sprintf("fd00:250:%d::%d", n.fabric.Subnet, 10+n.number)}
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

// Daemon returns a command as a daemon in the network namespace of the cluster.
func (n *Network) Daemon(command process.Command) process.Daemon {
	command.Args = append([]string{"--net=/run/netns/" + n.namespace(), "--", command.Path}, command.Args...)
	command.Path = "nsenter"
	return process.Daemon{Command: command, PIDFile: filepath.Join(n.dir, command.Name+".pid")}
}

// KillAll kills all processes in the network namespace of the cluster.
func (n *Network) KillAll() error {
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

// connect creates the network namespace of a cluster and connects it to the switch.
func (n *Network) connect() error {
	namespace, fabric, port := n.namespace(), n.fabric.namespace(), fmt.Sprintf("cluster%d", n.number)
	inCluster := func(command ...string) func() error { return func() error { return in(namespace, command...) } }
	inFabric := func(command ...string) func() error { return func() error { return in(fabric, command...) } }
	steps := []func() error{
		func() error { return ip("netns", "add", namespace) },
		func() error { return prepareNamespace(namespace) },
		inFabric("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", "/run/netns/"+namespace),
		inFabric("ip", "link", "set", port, "master", "switch", "up"),
		inCluster("ip", "address", "add", n.NodeIPs()[0]+"/24", "dev", "eth0"),
		inCluster("ip", "address", "add", n.NodeIPs()[1]+"/64", "dev", "eth0", "nodad"),
		inCluster("ip", "link", "set", "eth0", "up"),
		// Packets to unknown addresses end in the fabric. Without a default route,
		// packets to the address of a Service would be rejected before kube-proxy's
		// rules apply.
		inCluster("ip", "route", "add", "default", "via", fmt.Sprintf("10.250.%d.2", n.fabric.Subnet)),
		inCluster("ip", "route", "add", "default", "via", fmt.Sprintf("fd00:250:%d::2", n.fabric.Subnet)),
	}
	return all(steps...)
}
