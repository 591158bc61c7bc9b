// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tcplink is a TCP connection between two clusters that a test can break:
// it forwards what arrives at one address to another, until it is told not to.
package tcplink

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// Link forwards connections. It is whole when it is new.
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

// New returns a link that forwards connections at one address to another. While
// it is cut its port is free for anybody: give one that the system does not hand
// out by itself, below 32768. The caller must Close it.
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

// Address is where the link listens.
func (l *Link) Address() string { return l.address }

// Sent is how many bytes were forwarded to the target.
func (l *Link) Sent() int64 { return l.sent.Load() }

// Received is how many bytes were forwarded from the target.
func (l *Link) Received() int64 { return l.received.Load() }

// Open is how many connections there are.
func (l *Link) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.connections)
}

// Cut resets all connections and refuses new ones. When it returns, nobody can connect.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut()
}

// Hang forwards nothing any more, of connections that there are and of those
// that are still accepted, and closes none: what a network does that loses all
// packets. What was sent meanwhile arrives after Restore.
func (l *Link) Hang() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forwards() {
		l.forwarding = make(chan struct{})
	}
	return l.listen()
}

// Restore makes the link whole again. Connections that Cut has ended stay so.
func (l *Link) Restore() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.forwards() {
		close(l.forwarding)
	}
	return l.listen()
}

// Close ends the link and waits until nothing of it is left.
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

// listen starts to accept connections, unless that is done already.
func (l *Link) listen() error {
	switch {
	case l.closed:
		return errors.New("the link was closed")
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

// add is false for a connection that was accepted while the link was cut.
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

// await waits until the link forwards, or is false if the connection was dropped.
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
