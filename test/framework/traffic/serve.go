// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package traffic makes connections to services by their names at a fixed rate, counts those that
// fail, and has the servers that answer them.
package traffic

import (
	"errors"
	"io"
	"net"
)

// Serve answers every connection with a name until the listener is closed.
func Serve(listener net.Listener, name string) error {
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			_, _ = io.WriteString(conn, name) // the client counts it if that fails
		}()
	}
}
