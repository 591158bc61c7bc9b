// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/osthread"
)

// Pod is the network and UTS namespace of a Pod. Open files hold the namespaces: they have
// no name and no mount, and are removed when the agent and the processes of the Pod are
// gone, however they ended.
type Pod struct {
	// Net and UTS are the namespaces for processes to join.
	Net, UTS *os.File
	// Addresses are in the order of the CIDRs. A Pod in the host network has none.
	Addresses []netip.Addr

	network *Network
	link    string
}

// NewPod creates the network of the Pod with the given UID.
func (n *Network) NewPod(ctx context.Context, uid, hostname string) (_ *Pod, err error) {
	pod := &Pod{network: n, link: linkName(uid)}
	defer func() {
		if err != nil {
			err = errors.Join(err, pod.Close(context.WithoutCancel(ctx)))
		}
	}()
	if pod.Addresses, err = n.take(); err != nil {
		return nil, err
	}
	if pod.Net, pod.UTS, err = newNamespaces(unix.CLONE_NEWNET|unix.CLONE_NEWUTS, hostname); err != nil {
		return nil, err
	}
	if err := runIP(ctx, attachCommands(n.bridge, pod.link), pod.Net); err != nil {
		return nil, fmt.Errorf("connect Pod to bridge %s: %w", n.bridge, err)
	}
	return pod, pod.Do(func() error {
		if err := setSysctls(podSysctls(n.ipv6())); err != nil {
			return err
		}
		return runIP(ctx, podCommands(pod.Addresses, n.gatewayAddresses()))
	})
}

// NewHostPod returns a Pod in the host network.
func (n *Network) NewHostPod(hostname string) (*Pod, error) {
	netns, uts, err := newNamespaces(unix.CLONE_NEWUTS, hostname)
	if err != nil {
		return nil, err
	}
	return &Pod{Net: netns, UTS: uts, network: n}, nil
}

// Do runs f in the network namespace of the Pod.
func (p *Pod) Do(f func() error) error {
	return osthread.Run(func() error {
		if err := unix.Setns(int(p.Net.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace of the Pod: %w", err)
		}
		return f()
	})
}

// Close removes the network. No process of the Pod may be running.
func (p *Pod) Close(ctx context.Context) error {
	var errs []error
	if p.link != "" {
		// Linux removes the link with the last holder of the namespace, but with a
		// delay.
		errs = append(errs, removeLink(ctx, p.link))
	}
	for _, file := range []*os.File{p.Net, p.UTS} {
		if file != nil {
			errs = append(errs, file.Close())
		}
	}
	p.network.release(p.Addresses)
	p.Addresses = nil
	return errors.Join(errs...)
}

func (n *Network) gatewayAddresses() []netip.Addr {
	var addresses []netip.Addr
	for _, gateway := range n.gateways() {
		addresses = append(addresses, gateway.Addr())
	}
	return addresses
}

// newNamespaces creates the namespaces given by flags, and opens the network and UTS
// namespaces of the thread.
func newNamespaces(flags int, hostname string) (netns, uts *os.File, err error) {
	err = osthread.Run(func() error {
		if err := unix.Unshare(flags); err != nil {
			return fmt.Errorf("create namespaces, which requires root: %w", err)
		}
		if err := unix.Sethostname([]byte(hostname)); err != nil {
			return fmt.Errorf("set host name %q: %w", hostname, err)
		}
		if netns, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		if uts, err = os.Open("/proc/thread-self/ns/uts"); err != nil {
			netns.Close()
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return netns, uts, nil
}
