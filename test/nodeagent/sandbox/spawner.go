// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs the processes of containers: each container has a file system, a mount
// namespace and a PID namespace of its own, and shares the network and UTS namespaces of its Pod.
package sandbox

import "runtime"

// spawner starts processes from one operating system thread that lives as long as the agent. Linux
// kills a process with Pdeathsig when the thread that started it ends, and Go may end threads at any
// time.
type spawner struct {
	requests chan func()
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for request := range s.requests {
			request()
		}
	}()
	return s
}

// do runs f on the thread.
func (s *spawner) do(f func() error) error {
	result := make(chan error, 1)
	s.requests <- func() { result <- f() }
	return <-result
}

// close ends the thread, upon which Linux kills all processes that it started.
func (s *spawner) close() { close(s.requests) }
