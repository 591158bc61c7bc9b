// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The networks of a set. A switch in a network namespace of its own, the fabric,
// connects the clusters and this machine; the machine reaches the nodes only.
// Every cluster has routes to the Pods of every other cluster, and none to
// their Services.
//
//	this machine  10.250.S.1    fd00:250:S::1
//	fabric        10.250.S.2    default route, drops all packets
//	node N        10.250.S.1N   fd00:250:S::1N
//	Pods of N     10.(100+N).0.0/16   fd00:100:N::/64
//	Services of N 10.(150+N).0.0/16   fd00:150:N::/112

// namespacePrefix returns the prefix of the names of all network namespaces of the set.
func (s *Set) namespacePrefix() string { return "mcs-" + s.id() + "-" }

// fabric returns the network namespace of the fabric. The dot keeps it distinct
// from the namespace of any cluster.
func (s *Set) fabric() string { return s.namespacePrefix() + "the.fabric" }

// hostEnd returns the interface through which this machine reaches the clusters.
func (s *Set) hostEnd() string { return "mcs" + s.id() }

func (c *Cluster) namespace() string { return c.set.namespacePrefix() + c.Name }

// NodeIPs returns the addresses of the cluster's only node and of its kube-apiserver.
func (c *Cluster) NodeIPs() []string {
	return []string{fmt.Sprintf("10.250.%d.%d", c.subnet, 10+c.number), fmt.Sprintf("fd00:250:%d::%d", c.subnet, 10+c.number)}
}

// PodCIDRs returns the Pod networks of the cluster.
func (c *Cluster) PodCIDRs() []string {
	return []string{fmt.Sprintf("10.%d.0.0/16", 100+c.number), fmt.Sprintf("fd00:100:%d::/64", c.number)}
}

// ServiceCIDRs returns the Service networks of the cluster.
func (c *Cluster) ServiceCIDRs() []string {
	return []string{fmt.Sprintf("10.%d.0.0/16", 150+c.number), fmt.Sprintf("fd00:150:%d::/112", c.number)}
}

func (c *Cluster) dnsIPs() []string {
	return []string{fmt.Sprintf("10.%d.0.10", 150+c.number), fmt.Sprintf("fd00:150:%d::a", c.number)}
}

// freeSubnet returns a subnet number that no interface of this machine uses.
func freeSubnet() (int, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return 0, err
	}
	used := map[int]bool{}
	for _, address := range addresses {
		var subnet, host int
		if _, err := fmt.Sscanf(address.String(), "10.250.%d.%d/", &subnet, &host); err == nil {
			used[subnet] = true
		}
	}
	for subnet := 1; subnet < 255; subnet++ {
		if !used[subnet] {
			return subnet, nil
		}
	}
	return 0, errors.New("no free network for the clusters: 10.250.1.0/24 to 10.250.254.0/24 are all in use")
}

func ip(args ...string) error {
	if output, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

// in runs a command in a network namespace.
func in(namespace string, command ...string) error {
	output, err := exec.Command("nsenter", append([]string{"--net=/run/netns/" + namespace, "--"}, command...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s (in %s): %w: %s", strings.Join(command, " "), namespace, err, strings.TrimSpace(string(output)))
	}
	return nil
}

func all(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func namespaceExists(name string) bool {
	_, err := os.Stat(filepath.Join("/run/netns", name))
	return err == nil
}

// buildNetwork creates the missing parts of the network.
func (s *Set) buildNetwork(clusters []*Cluster) error {
	if !namespaceExists(s.fabric()) {
		if err := s.buildFabric(clusters[0].subnet); err != nil {
			return err
		}
	}
	for _, cluster := range clusters {
		if namespaceExists(cluster.namespace()) {
			continue
		}
		if err := cluster.connect(); err != nil {
			return err
		}
	}
	for _, from := range clusters {
		for _, to := range clusters {
			if from == to {
				continue
			}
			for family, cidr := range to.PodCIDRs() {
				if err := in(from.namespace(), "ip", "route", "replace", cidr, "via", to.NodeIPs()[family]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *Set) buildFabric(subnet int) error {
	fabric, host := s.fabric(), s.hostEnd()
	inFabric := func(command ...string) func() error { return func() error { return in(fabric, command...) } }
	onHost := func(args ...string) func() error { return func() error { return ip(args...) } }
	return all(
		onHost("netns", "add", fabric),
		func() error { return prepareNamespace(fabric) },
		inFabric("ip", "link", "add", "switch", "type", "bridge"),
		inFabric("ip", "address", "add", fmt.Sprintf("10.250.%d.2/24", subnet), "dev", "switch"),
		inFabric("ip", "address", "add", fmt.Sprintf("fd00:250:%d::2/64", subnet), "dev", "switch", "nodad"),
		inFabric("ip", "link", "set", "switch", "up"),
		onHost("link", "add", host, "type", "veth", "peer", "name", "host", "netns", fabric),
		inFabric("ip", "link", "set", "host", "master", "switch", "up"),
		onHost("address", "add", fmt.Sprintf("10.250.%d.1/24", subnet), "dev", host),
		onHost("address", "add", fmt.Sprintf("fd00:250:%d::1/64", subnet), "dev", host, "nodad"),
		onHost("link", "set", host, "up"),
	)
}

// connect creates the network namespace of a cluster and connects it to the switch.
func (c *Cluster) connect() error {
	namespace, fabric, port := c.namespace(), c.set.fabric(), fmt.Sprintf("cluster%d", c.number)
	inCluster := func(command ...string) func() error { return func() error { return in(namespace, command...) } }
	inFabric := func(command ...string) func() error { return func() error { return in(fabric, command...) } }
	steps := []func() error{
		func() error { return ip("netns", "add", namespace) },
		func() error { return prepareNamespace(namespace) },
		inFabric("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", "/run/netns/"+namespace),
		inFabric("ip", "link", "set", port, "master", "switch", "up"),
		inCluster("ip", "address", "add", c.NodeIPs()[0]+"/24", "dev", "eth0"),
		inCluster("ip", "address", "add", c.NodeIPs()[1]+"/64", "dev", "eth0", "nodad"),
		inCluster("ip", "link", "set", "eth0", "up"),
		// Packets to unknown addresses end in the fabric. Without a default route,
		// packets to the address of a Service would be rejected before kube-proxy's
		// rules apply.
		inCluster("ip", "route", "add", "default", "via", fmt.Sprintf("10.250.%d.2", c.subnet)),
		inCluster("ip", "route", "add", "default", "via", fmt.Sprintf("fd00:250:%d::2", c.subnet)),
	}
	return all(steps...)
}

// prepareNamespace enables loopback, and disables duplicate address detection
// so that addresses are usable at once.
func prepareNamespace(namespace string) error {
	if err := in(namespace, "ip", "link", "set", "lo", "up"); err != nil {
		return err
	}
	return in(namespace, "sh", "-c", "echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad && echo 0 >/proc/sys/net/ipv6/conf/all/accept_dad")
}

// removeNetwork removes every namespace and interface of the set.
func (s *Set) removeNetwork() error {
	entries, err := os.ReadDir("/run/netns")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var errs []error
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), s.namespacePrefix()) {
			errs = append(errs, ip("netns", "delete", entry.Name()))
		}
	}
	if _, err := net.InterfaceByName(s.hostEnd()); err == nil {
		errs = append(errs, ip("link", "delete", s.hostEnd()))
	}
	return errors.Join(errs...)
}
