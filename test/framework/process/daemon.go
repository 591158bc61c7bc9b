// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Daemon is a program that outlives the process which started it. A file
// remembers which one it is, so that a later process can find it again.
type Daemon struct {
	Command
	// PIDFile remembers the process id, and the time at which the process
	// started, because ids are used again.
	PIDFile string
}

// Start starts the daemon unless it runs already.
func (d Daemon) Start() error {
	if _, running := d.Running(); running {
		return nil
	}
	cmd, err := d.start(&syscall.SysProcAttr{Setsid: true})
	if err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // so that no zombie is taken for a running daemon
	started, err := startTime(cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("%s ended at once\n%s", d.Name, d.logTail(20))
	}
	return os.WriteFile(d.PIDFile, fmt.Appendf(nil, "%d %s\n", cmd.Process.Pid, started), 0o644)
}

// Running returns the process id of the daemon while it runs.
func (d Daemon) Running() (int, bool) {
	data, err := os.ReadFile(d.PIDFile)
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(data))
	if len(fields) != 2 {
		return 0, false
	}
	pid, err := strconv.Atoi(fields[0])
	if err != nil {
		return 0, false
	}
	started, err := startTime(pid)
	return pid, err == nil && started == fields[1]
}

// Signal sends a signal to the daemon.
func (d Daemon) Signal(signal syscall.Signal) error {
	pid, running := d.Running()
	if !running {
		return fmt.Errorf("%s is not running", d.Name)
	}
	return syscall.Kill(pid, signal)
}

// Kill ends the daemon at once, as a power failure would, and waits until it is gone.
func (d Daemon) Kill() error {
	if err := d.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	return d.awaitEnd(context.Background(), time.Minute)
}

// Stop asks the daemon to end and waits until it has. One that is paused is
// woken up first; one that takes too long is killed.
func (d Daemon) Stop(ctx context.Context, patience time.Duration) error {
	if _, running := d.Running(); !running {
		return nil
	}
	if err := errors.Join(d.Signal(syscall.SIGCONT), d.Signal(syscall.SIGTERM)); err != nil {
		return err
	}
	if err := d.awaitEnd(ctx, patience); err != nil {
		return d.Kill()
	}
	return nil
}

func (d Daemon) awaitEnd(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		if _, running := d.Running(); !running {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not end within %s\n%s", d.Name, patience, d.logTail(20))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Await waits until the daemon is ready, as Process.Await does.
func (d Daemon) Await(ctx context.Context, patience time.Duration, ready func(context.Context) error) error {
	exited := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		if d.awaitEnd(ctx, patience) == nil {
			close(exited)
		}
	}()
	return await(ctx, d.Command, patience, exited, ready)
}

// startTime is when a process started, in the kernel's own terms. It is an
// error for one that has ended and has not been waited for.
func startTime(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The name, in parentheses, may contain anything: count from behind it.
	rest := string(data)[strings.LastIndexByte(string(data), ')')+1:]
	const state, start = 0, 19
	fields := strings.Fields(rest)
	if len(fields) <= start {
		return "", fmt.Errorf("cannot read when process %d started", pid)
	}
	if fields[state] == "Z" || fields[state] == "X" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return fields[start], nil
}
