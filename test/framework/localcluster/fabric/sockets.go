// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Own makes all addresses of a CIDR those of the node itself.
func (n *Node) Own(cidr string) error {
	return n.run("ip", "route", "replace", "local", cidr, "dev", "lo")
}

// Listen listens at a TCP address in the network of the node.
func (n *Node) Listen(address string) (net.Listener, error) {
	return within(n, func() (net.Listener, error) { return net.Listen("tcp4", address) })
}

// Dial connects to an IPv4 address, which is not a name, from the network of the node.
func (n *Node) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return within(n, func() (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, network, address) })
}

// within opens a socket in the network namespace of the node.
func within[T any](n *Node, open func() (T, error)) (T, error) {
	type result struct {
		socket T
		err    error
	}
	done := make(chan result)
	go onOwnThread(func() {
		var opened result
		if opened.err = n.enter(); opened.err == nil {
			opened.socket, opened.err = open()
		}
		done <- opened
	})
	opened := <-done
	return opened.socket, opened.err
}

// onOwnThread calls a function on a thread that ends with it. It does not return before that,
// and is called in a goroutine of its own.
//
// The main thread never ends, and the namespace that it is in is that of the whole process to
// others: it would be killed together with what runs on the node.
func onOwnThread(call func()) {
	runtime.LockOSThread() // without unlocking it, so that the thread ends with the goroutine
	if unix.Gettid() != unix.Getpid() {
		call()
		return
	}
	defer runtime.UnlockOSThread()
	done := make(chan struct{})
	go func() { // on another thread, as this one is locked
		defer close(done)
		onOwnThread(call)
	}()
	<-done
}

// enter moves this thread into the network namespace of the node.
func (n *Node) enter() error {
	namespace, err := os.Open(filepath.Join("/run/netns", n.namespace()))
	if err != nil {
		return err
	}
	defer namespace.Close()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", n.namespace(), err)
	}
	return nil
}
