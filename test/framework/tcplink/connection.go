// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package tcplink

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// connection is one forwarded connection.
type connection struct {
	client *net.TCPConn
	// dropped is done when the connection must be reset.
	dropped context.Context
	cancel  context.CancelFunc

	mu   sync.Mutex
	ends []*net.TCPConn
}

func newConnection(client *net.TCPConn) *connection {
	c := &connection{client: client, ends: []*net.TCPConn{client}}
	c.dropped, c.cancel = context.WithCancel(context.Background())
	return c
}

// drop resets both ends, unless they are closed.
func (c *connection) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel()
	for _, end := range c.ends {
		reset(end)
	}
}

// attach adds the other end and reports true. If the connection was dropped, it
// resets the end and reports false.
func (c *connection) attach(end *net.TCPConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped.Err() != nil {
		reset(end)
		return false
	}
	c.ends = append(c.ends, end)
	return true
}

// reset closes a connection with a reset, so that its peer receives an error and
// not a regular end of input.
func reset(connection *net.TCPConn) {
	_ = connection.SetLinger(0)
	_ = connection.Close()
}

// run forwards until both ends have closed their input or one has failed.
func (c *connection) run(l *Link) {
	defer c.drop()
	if !l.await(c) {
		return
	}
	dialed, err := (&net.Dialer{}).DialContext(c.dropped, "tcp", l.target)
	if err != nil {
		return
	}
	target := dialed.(*net.TCPConn)
	if !c.attach(target) {
		return
	}
	received := make(chan struct{})
	go func() {
		defer close(received)
		c.forward(l, c.client, target, &l.received)
	}()
	c.forward(l, target, c.client, &l.sent)
	<-received
	if c.dropped.Err() == nil { // both directions have ended
		_ = c.client.Close()
		_ = target.Close()
	}
}

// forward copies one direction, the end of input included.
func (c *connection) forward(l *Link, to, from *net.TCPConn, count *atomic.Int64) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if !l.await(c) {
			return
		}
		if n > 0 {
			count.Add(int64(n)) // before writing, so that the receiver finds the bytes counted
			if _, err := to.Write(buffer[:n]); err != nil {
				c.drop()
				return
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = to.CloseWrite() // fails only if the other end is gone, which the other direction detects
			return
		case err != nil:
			c.drop()
			return
		}
	}
}
