// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package osthread runs a function on an operating system thread of its own, so that the function
// may change attributes that Linux keeps per thread, such as namespaces and the root directory.
package osthread

import "runtime"

// Run runs f on a thread that is not shared and that ends with f, so that no other goroutine
// observes changes that f makes to its thread.
//
// The main thread represents the process in /proc. A program that uses this package must keep the
// main thread: its main package calls runtime.LockOSThread in an init function.
func Run(f func() error) error {
	result := make(chan error, 1)
	go func() {
		// The thread stays locked, so that the runtime ends it with the goroutine.
		runtime.LockOSThread()
		result <- f()
	}()
	return <-result
}
