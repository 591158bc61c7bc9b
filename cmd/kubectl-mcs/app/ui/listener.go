// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
)

// maxAttempts limits how many free ports of one address are tried that are in use at the other.
const maxAttempts = 20

// listenLoopback listens at a port of both loopback addresses: browsers resolve the name of the page to
// either, and somebody else who listens at the other would receive the token. The port 0 is a free one.
func listenLoopback(ctx context.Context, port int) ([]net.Listener, error) {
	config := &net.ListenConfig{}
	for attempt := 1; ; attempt++ {
		first, err := config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return nil, err
		}
		second, err := config.Listen(ctx, "tcp6", net.JoinHostPort("::1", strconv.Itoa(portOf(first))))
		switch {
		case err == nil:
			return []net.Listener{first, second}, nil
		case !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EACCES) && ctx.Err() == nil:
			return []net.Listener{first}, nil // nobody can listen at ::1 on a machine without IPv6
		}
		first.Close()
		if port != 0 || attempt == maxAttempts {
			return nil, fmt.Errorf("another program may listen at the address ::1: %w", err)
		}
	}
}

func portOf(listener net.Listener) int { return listener.Addr().(*net.TCPAddr).Port }

// limitedListener closes connections beyond a limit at once: they must not use up the file descriptors
// that the command needs to watch clusters.
type limitedListener struct {
	net.Listener
	// open has an element for every connection, of all listeners that share it.
	open chan struct{}
}

func newLimitedListener(listener net.Listener, open chan struct{}) *limitedListener {
	return &limitedListener{Listener: listener, open: open}
}

// Accept returns the next connection within the limit.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.open <- struct{}{}:
			return &limitedConnection{Conn: accepted, release: sync.OnceFunc(func() { <-l.open })}, nil
		default:
			accepted.Close()
		}
	}
}

// limitedConnection makes room for another one when it is closed.
type limitedConnection struct {
	net.Conn
	release func()
}

// Close closes the connection.
func (c *limitedConnection) Close() error {
	c.release()
	return c.Conn.Close()
}
