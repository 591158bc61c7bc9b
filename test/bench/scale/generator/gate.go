// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"net"
	"sync"
)

// gate lets the connections of a member through, or not: a member whose gate is closed accepts
// connections and receives what is sent to it, and answers nothing, as if it were paused.
type gate struct {
	mu sync.Mutex
	// opened is closed while the gate is open.
	opened chan struct{}
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
	close(g.opened)
	return g
}

func (g *gate) isOpenLocked() bool {
	select {
	case <-g.opened:
		return true
	default:
		return false
	}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOpenLocked() {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOpenLocked() {
		close(g.opened)
	}
}

func (g *gate) await(ended <-chan struct{}) {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	select {
	case <-opened:
	case <-ended:
	}
}

// gatedListener accepts connections that go through a gate.
type gatedListener struct {
	net.Listener
	gate *gate
}

// Accept implements net.Listener.
func (l gatedListener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &gatedConnection{Conn: connection, gate: l.gate, ended: make(chan struct{})}, nil
}

type gatedConnection struct {
	net.Conn
	gate  *gate
	once  sync.Once
	ended chan struct{}
}

// Read implements net.Conn.
func (c *gatedConnection) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	c.gate.await(c.ended)
	return n, err
}

// Write implements net.Conn.
func (c *gatedConnection) Write(data []byte) (int, error) {
	c.gate.await(c.ended)
	return c.Conn.Write(data)
}

// Close implements net.Conn.
func (c *gatedConnection) Close() error {
	c.once.Do(func() { close(c.ended) })
	return c.Conn.Close()
}
