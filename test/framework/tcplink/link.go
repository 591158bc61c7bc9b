// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tcplink forwards TCP connections between two clusters. A test can cut
// the link, or make it hang.
package tcplink

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// Link forwards TCP connections from one address to another.
type Link struct {
	target, address string

	sent, received atomic.Int64
	// running are the goroutines of the listener and of all connections.
	running sync.WaitGroup

	mu sync.Mutex
	// listener is nil while the link is cut.
	listener net.Listener
	closed   bool
	// forwarding is closed unless the link hangs.
	forwarding  chan struct{}
	connections map[*connection]struct{}
}

// New returns a link that forwards connections from one address to another.
// While the link is cut, its port is free: use a port below the ephemeral range,
// which starts at 32768. The caller must Close the link.
func New(listenAddress, target string) (*Link, error) {
	l := &Link{
		target: target, address: listenAddress,
		forwarding: make(chan struct{}), connections: map[*connection]struct{}{},
	}
	close(l.forwarding)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.listen(); err != nil {
		return nil, err
	}
	l.address = l.listener.Addr().String()
	return l, nil
}

// Address returns the address that the link listens at.
func (l *Link) Address() string { return l.address }

// Sent returns the number of bytes forwarded to the target.
func (l *Link) Sent() int64 { return l.sent.Load() }

// Received returns the number of bytes forwarded from the target.
func (l *Link) Received() int64 { return l.received.Load() }

// Open returns the number of open connections.
func (l *Link) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.connections)
}

// Cut resets all connections and refuses new ones.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut()
}

// Hang stops forwarding on existing and new connections without closing any,
// like a network that loses all packets. Data sent in the meantime is forwarded
// after Restore.
func (l *Link) Hang() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forwards() {
		l.forwarding = make(chan struct{})
	}
	return l.listen()
}

// Restore undoes Cut and Hang. Connections that Cut has reset stay closed.
func (l *Link) Restore() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.forwards() {
		close(l.forwarding)
	}
	return l.listen()
}

// Close closes the link and waits until its goroutines have ended.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	l.cut()
	l.mu.Unlock()
	l.running.Wait()
}

func (l *Link) forwards() bool {
	select {
	case <-l.forwarding:
		return true
	default:
		return false
	}
}

func (l *Link) cut() {
	if l.listener != nil {
		l.listener.Close()
		l.listener = nil
	}
	for c := range l.connections {
		c.drop()
	}
	clear(l.connections)
}

// listen starts accepting connections, unless the link already does.
func (l *Link) listen() error {
	switch {
	case l.closed:
		return errors.New("link is closed")
	case l.listener != nil:
		return nil
	}
	listener, err := net.Listen("tcp", l.address)
	if err != nil {
		return fmt.Errorf("listen for connections to %s: %w", l.target, err)
	}
	l.listener = listener
	l.running.Go(func() { l.accept(listener) })
	return nil
}

func (l *Link) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // the listener was closed
		}
		c := newConnection(client.(*net.TCPConn))
		if !l.add(listener, c) {
			c.drop()
			return
		}
		l.running.Go(func() {
			c.run(l)
			l.remove(c)
		})
	}
}

// add reports false for a connection that was accepted while the link was cut.
func (l *Link) add(listener net.Listener, c *connection) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != listener {
		return false
	}
	l.connections[c] = struct{}{}
	return true
}

func (l *Link) remove(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.connections, c)
}

// await waits until the link forwards and reports true. It reports false if the
// connection was dropped.
func (l *Link) await(c *connection) bool {
	l.mu.Lock()
	forwarding := l.forwarding
	l.mu.Unlock()
	select {
	case <-c.dropped.Done():
		return false
	case <-forwarding:
		return c.dropped.Err() == nil
	}
}
