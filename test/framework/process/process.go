// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process runs the programs under test and stops them with the test.
package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// quitPatience is how long a hanging program may take to write its goroutines.
const quitPatience = 5 * time.Second

// Command is a program to run.
type Command struct {
	// Name identifies the program in messages.
	Name string
	Path string
	Args []string
	// Env is added to the environment of this process.
	Env []string
	// Log is the file to which the output is appended.
	Log string
}

// Process is a running program.
type Process struct {
	command Command
	cmd     *exec.Cmd
	exited  chan struct{}
	err     error
}

// Start starts a program, which is killed when this process exits for whatever
// reason.
func Start(command Command) (*Process, error) {
	cmd, err := command.start(&syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true})
	if err != nil {
		return nil, err
	}
	process := &Process{command: command, cmd: cmd, exited: make(chan struct{})}
	go func() {
		process.err = cmd.Wait()
		close(process.exited)
	}()
	return process, nil
}

// PID returns the process ID of the program.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed when the program has exited.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Err returns how the program exited. It may be called only after Exited is closed.
func (p *Process) Err() error { return p.err }

// Kill kills the program with SIGKILL, as a power failure would.
func (p *Process) Kill() {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.exited
}

// Stop sends SIGTERM and waits until the program has exited. If it does not exit
// in time, its goroutines are written to its log.
func (p *Process) Stop(patience time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if p.exits(patience) {
		return nil
	}
	tail := p.LogTail(20)
	_ = p.cmd.Process.Signal(syscall.SIGQUIT) // a Go program writes its goroutines
	if !p.exits(quitPatience) {
		p.Kill()
	}
	return fmt.Errorf("%s did not stop within %s\n%s", p.command.Name, patience, tail)
}

func (p *Process) exits(patience time.Duration) bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(patience):
		return false
	}
}

// Await waits until the program is ready. If it exits or takes too long, the
// error contains the end of its log.
func (p *Process) Await(ctx context.Context, patience time.Duration, ready func(context.Context) error) error {
	return await(ctx, p.command, patience, p.exited, ready)
}

// LogTail returns the last lines of the program's log with the name of the file.
func (p *Process) LogTail(lines int) string { return p.command.logTail(lines) }

func await(ctx context.Context, command Command, patience time.Duration, exited <-chan struct{}, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("%s exited before it was ready\n%s", command.Name, command.logTail(20))
		case <-ctx.Done():
			return fmt.Errorf("%s was not ready within %s: %w\n%s", command.Name, patience, err, command.logTail(20))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (c Command) logTail(lines int) string { return LogTail(c.Log, lines) }

// LogTail returns the last lines of a log with the name of the file.
func LogTail(file string, lines int) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return fmt.Sprintf("end of %s:\n  %s", file, strings.Join(all, "\n  "))
}

// start starts the program with its output in its log.
func (c Command) start(attributes *syscall.SysProcAttr) (*exec.Cmd, error) {
	if err := os.MkdirAll(filepath.Dir(c.Log), 0o755); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.SysProcAttr = attributes
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	return cmd, nil
}
