// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fabric connects local clusters, and impairs the links between them. Each node has a
// network namespace. A switch in another one, the fabric, connects the nodes and this machine;
// the machine reaches the nodes only. Every node has routes to the Pods of all nodes of all
// clusters, and none to the Services of other clusters. Node M of cluster N of the fabric with
// subnet S has these addresses, where M and N count from 0:
//
//	this machine  10.250.S.1    fd00:250:S::1
//	fabric        10.250.S.2    default route, drops all packets
//	node          10.250.S.(10+N+50M)   fd00:250:S::(10+N+50M)
//	Pods of node  10.(100+N).(64M).0/18   fd00:100:N:0:M::/80
//	Pods of N     10.(100+N).0.0/16   fd00:100:N::/64
//	Services of N 10.(150+N).0.0/16   fd00:150:N::/112
package fabric

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Fabric connects the clusters of one Set with each other and with this machine.
type Fabric struct {
	// ID distinguishes the namespaces and interfaces of this fabric from those of others.
	ID string
	// Subnet numbers the network between the clusters.
	Subnet int
	// Clusterset is the path of the program clusterset, which runs slow links.
	Clusterset string
}

// Network returns the network of a cluster with a number of nodes. The directory is for the
// logs and PID files of the programs in the network.
func (f *Fabric) Network(cluster string, number, nodes int, dir string) *Network {
	network := &Network{Cluster: cluster, fabric: f, number: number, dir: dir}
	for i := range nodes {
		network.Nodes = append(network.Nodes, &Node{network: network, number: i})
	}
	return network
}

// namespacePrefix returns the prefix of the names of all network namespaces of the fabric.
func (f *Fabric) namespacePrefix() string { return "mcs-" + f.ID + "-" }

// namespace returns the network namespace of the switch. The dot keeps it distinct from the
// namespace of any node.
func (f *Fabric) namespace() string { return f.namespacePrefix() + "the.fabric" }

// hostEnd returns the interface through which this machine reaches the clusters.
func (f *Fabric) hostEnd() string { return "mcs" + f.ID }

// lockFile is where all users of this machine lock who may take a subnet.
const lockFile = "/run/mcs-fabric.lock"

// Lock waits until nobody else holds the lock. Its holder may choose a subnet, and build the
// fabric with it.
func Lock() (unlock func(), err error) {
	file, err := os.OpenFile(lockFile, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", lockFile, err), file.Close())
	}
	return func() { _ = file.Close() }, nil // which unlocks it
}

// FreeSubnet returns a subnet number that no interface of this machine uses. The caller holds the
// lock until it has built the fabric.
func FreeSubnet() (int, error) {
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

// Build creates the missing parts of the fabric and of the networks of all clusters.
func (f *Fabric) Build(networks []*Network) error {
	if !namespaceExists(f.namespace()) {
		if err := f.build(); err != nil {
			return err
		}
	}
	var nodes []*Node
	for _, network := range networks {
		nodes = append(nodes, network.Nodes...)
	}
	for _, node := range nodes {
		if namespaceExists(node.namespace()) {
			continue
		}
		if err := node.connect(); err != nil {
			return err
		}
	}
	for _, from := range nodes {
		for _, to := range nodes {
			if from == to {
				continue
			}
			for family, cidr := range to.PodCIDRs() {
				if err := from.run("ip", "route", "replace", cidr, "via", to.IPs()[family]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// build creates the switch and connects this machine to it.
func (f *Fabric) build() error {
	fabric, host := f.namespace(), f.hostEnd()
	inFabric := func(command ...string) func() error { return func() error { return in(fabric, command...) } }
	onHost := func(args ...string) func() error { return func() error { return ip(args...) } }
	return all(
		onHost("netns", "add", fabric),
		func() error { return prepareNamespace(fabric) },
		inFabric("ip", "link", "add", "switch", "type", "bridge"),
		inFabric("ip", "address", "add", fmt.Sprintf("10.250.%d.2/24", f.Subnet), "dev", "switch"),
		inFabric("ip", "address", "add", fmt.Sprintf("fd00:250:%d::2/64", f.Subnet), "dev", "switch", "nodad"),
		inFabric("ip", "link", "set", "switch", "up"),
		onHost("link", "add", host, "type", "veth", "peer", "name", "host", "netns", fabric),
		inFabric("ip", "link", "set", "host", "master", "switch", "up"),
		onHost("address", "add", fmt.Sprintf("10.250.%d.1/24", f.Subnet), "dev", host),
		onHost("address", "add", fmt.Sprintf("fd00:250:%d::1/64", f.Subnet), "dev", host, "nodad"),
		onHost("link", "set", host, "up"),
	)
}

// Remove removes every namespace and interface of the fabric.
func (f *Fabric) Remove() error {
	namespaces, err := f.namespaces()
	if err != nil {
		return err
	}
	var errs []error
	// The interface is removed first, because Linux removes it some time after the namespace at its
	// other end: between a look and the removal, or after both.
	if _, err := net.InterfaceByName(f.hostEnd()); err == nil {
		errs = append(errs, ip("link", "delete", f.hostEnd()))
	}
	for _, namespace := range namespaces {
		errs = append(errs, ip("netns", "delete", namespace))
	}
	return errors.Join(errs...)
}

// Leftovers describes the namespaces and interfaces of the fabric that exist.
func (f *Fabric) Leftovers() ([]string, error) {
	namespaces, err := f.namespaces()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, namespace := range namespaces {
		found = append(found, "network namespace "+namespace)
	}
	if _, err := net.InterfaceByName(f.hostEnd()); err == nil {
		found = append(found, "interface "+f.hostEnd())
	}
	return found, nil
}

// namespaces returns the existing network namespaces of the fabric.
func (f *Fabric) namespaces() ([]string, error) {
	entries, err := os.ReadDir("/run/netns")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), f.namespacePrefix()) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

func namespaceExists(name string) bool {
	_, err := os.Stat(filepath.Join("/run/netns", name))
	return err == nil
}
