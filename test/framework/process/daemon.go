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

// Daemon is a program that outlives the process that started it. A PID file
// identifies it, so that later processes can find it.
type Daemon struct {
	Command
	// PIDFile holds the process ID and the start time of the process, since IDs
	// are reused.
	PIDFile string
}

// Start starts the daemon unless it is already running.
func (d Daemon) Start() error {
	if _, running := d.Running(); running {
		return nil
	}
	cmd, err := d.start(&syscall.SysProcAttr{Setsid: true})
	if err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // so that no zombie counts as a running daemon
	started, err := startTime(cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("%s exited immediately\n%s", d.Name, d.logTail(20))
	}
	return os.WriteFile(d.PIDFile, fmt.Appendf(nil, "%d %s\n", cmd.Process.Pid, started), 0o644)
}

// Running returns the process ID of the daemon and whether it is running.
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

// Kill kills the daemon with SIGKILL, as a power failure would, and waits until
// it has exited.
func (d Daemon) Kill() error {
	if err := d.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	return d.awaitEnd(context.Background(), time.Minute)
}

// Stop sends SIGTERM and waits until the daemon has exited. A paused daemon is
// resumed first; a daemon that does not exit in time is killed.
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
			return fmt.Errorf("%s did not exit within %s\n%s", d.Name, patience, d.logTail(20))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Await waits until the daemon is ready, like Process.Await.
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

// startTime returns the start time of a process in clock ticks since boot. It
// returns an error for a zombie, which holds nothing any more.
func startTime(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The program name, in parentheses, may contain anything: skip it.
	rest := string(data)[strings.LastIndexByte(string(data), ')')+1:]
	const state, threads, start = 0, 17, 19
	fields := strings.Fields(rest)
	if len(fields) <= start {
		return "", fmt.Errorf("read start time of process %d: unexpected format", pid)
	}
	// The first thread may have ended before others, which hold sockets open.
	ended, alone := fields[state] == "Z" || fields[state] == "X", fields[threads] == "0" || fields[threads] == "1"
	if ended && alone {
		return "", fmt.Errorf("process %d has exited", pid)
	}
	return fields[start], nil
}
