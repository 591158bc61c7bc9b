// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os/exec"
	"syscall"
	"time"
)

// Container is a container whose program was started.
type Container struct {
	process Process
	cmd     *exec.Cmd

	done     chan struct{}
	code     int
	finished time.Time
}

// wait waits until all processes of the container are gone and all that they
// printed was passed on.
func (c *Container) wait() {
	defer close(c.done)
	_ = c.cmd.Wait() // the state says all
	c.finished = time.Now()
	c.code = exitCode(c.cmd.ProcessState.Sys().(syscall.WaitStatus))
}

// Done is closed when the container has ended.
func (c *Container) Done() <-chan struct{} { return c.done }

// Exit is the exit code of the program, and when it ended. It may only be
// asked after it did.
func (c *Container) Exit() (int, time.Time) { return c.code, c.finished }

// Signal sends a signal to the program. It is no error if it has ended.
func (c *Container) Signal(signal syscall.Signal) { _ = c.cmd.Process.Signal(signal) }

// Kill ends all processes of the container.
func (c *Container) Kill() { c.Signal(syscall.SIGKILL) }
