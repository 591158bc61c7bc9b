// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os/exec"
	"syscall"
	"time"
)

// Container is a started container.
type Container struct {
	process Process
	cmd     *exec.Cmd

	done     chan struct{}
	code     int
	finished time.Time
}

// wait waits until all processes of the container have exited and their output was copied.
func (c *Container) wait() {
	defer close(c.done)
	_ = c.cmd.Wait() // the exit code is in the process state
	c.finished = time.Now()
	c.code = exitCode(c.cmd.ProcessState.Sys().(syscall.WaitStatus))
}

// Done returns a channel that is closed when the container has exited.
func (c *Container) Done() <-chan struct{} { return c.done }

// Exit returns the exit code of the program and the time of its exit. It may be called only after
// Done is closed.
func (c *Container) Exit() (int, time.Time) { return c.code, c.finished }

// Signal sends a signal to the program. It returns no error if the program has exited.
func (c *Container) Signal(signal syscall.Signal) { _ = c.cmd.Process.Signal(signal) }

// Kill kills all processes of the container.
func (c *Container) Kill() { c.Signal(syscall.SIGKILL) }
