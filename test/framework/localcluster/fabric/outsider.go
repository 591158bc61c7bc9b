// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// AddOutsider connects a node to the networks of clusters that belongs to none of them. All
// addresses of the given CIDRs are its own.
func (f *Fabric) AddOutsider(name string, networks []*Network, cidrs []string) (*Node, error) {
	network := f.Network(name, MaxClusters-1, 1, "")
	outsider := network.ControlPlane()
	if err := f.Build(append(slices.Clone(networks), network)); err != nil {
		return nil, err
	}
	for _, cidr := range cidrs {
		if err := outsider.run("ip", "route", "replace", "local", cidr, "dev", "lo"); err != nil {
			return nil, err
		}
		for _, other := range networks {
			for _, node := range other.Nodes {
				if err := node.run("ip", "route", "replace", cidr, "via", outsider.IPs()[0]); err != nil {
					return nil, err
				}
			}
		}
	}
	return outsider, nil
}

// Listen listens at a TCP address in the network of the node.
func (n *Node) Listen(address string) (net.Listener, error) {
	type result struct {
		listener net.Listener
		err      error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // without unlocking it, so that the thread ends with the goroutine
		listener, err := n.listen(address)
		done <- result{listener, err}
	}()
	listening := <-done
	return listening.listener, listening.err
}

// listen moves this thread into the network namespace of the node.
func (n *Node) listen(address string) (net.Listener, error) {
	namespace, err := os.Open(filepath.Join("/run/netns", n.namespace()))
	if err != nil {
		return nil, err
	}
	defer namespace.Close()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("enter network namespace %s: %w", n.namespace(), err)
	}
	return net.Listen("tcp4", address)
}
