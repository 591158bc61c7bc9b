// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package osthread gives a function an operating system thread of its own, so
// that it may change what Linux keeps per thread: namespaces, root directory.
package osthread

import "runtime"

// Run runs f on a thread that nothing else uses and that ends with f. What f
// does to its thread is gone with it: no other goroutine ever sees it.
//
// The main thread stands for the whole process in /proc. A program that uses
// this package must keep it: its main package calls runtime.LockOSThread in an
// init function.
func Run(f func() error) error {
	result := make(chan error, 1)
	go func() {
		// Without an unlock the runtime ends the thread with the goroutine.
		runtime.LockOSThread()
		result <- f()
	}()
	return <-result
}
