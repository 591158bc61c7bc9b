// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/osthread"
)

// Streams are the streams of a command in a container. All are optional.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal allocates a terminal for the command. There is no Stderr in this case.
	Terminal bool
	// Sizes are the sizes of the terminal. The sender closes the channel.
	Sizes <-chan Size
}

// Exec runs a command in the container, with the user and environment of its program, and returns
// the exit code. The command is killed when the context is done, and when the container or the
// agent exits.
func (c *Container) Exec(ctx context.Context, args []string, streams Streams) (int, error) {
	if len(args) == 0 {
		return 0, errors.New("no command given")
	}
	code := 0
	err := osthread.Run(func() (err error) {
		// Files of the host are opened before the thread leaves the host.
		attached, err := attach(streams, c.process.UID)
		if err != nil {
			return err
		}
		defer attached.close()
		if err := c.enter(); err != nil {
			return err
		}
		code, err = c.run(ctx, args, attached)
		return err
	})
	return code, err
}

// enter moves this thread into the container. A thread may change its mount namespace only if it
// does not share its root directory with another thread.
func (c *Container) enter() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("prepare to enter container: %w", err)
	}
	var entered error
	err := c.cmd.Process.WithHandle(func(handle uintptr) {
		entered = unix.Setns(int(handle), unix.CLONE_NEWPID|unix.CLONE_NEWNET|unix.CLONE_NEWUTS|unix.CLONE_NEWIPC|unix.CLONE_NEWNS)
	})
	if errors.Is(err, os.ErrProcessDone) || errors.Is(entered, unix.ESRCH) {
		return errors.New("container is not running")
	}
	if err := errors.Join(err, entered); err != nil {
		return fmt.Errorf("enter container: %w", err)
	}
	return nil
}

func (c *Container) run(ctx context.Context, args []string, attached *attachment) (int, error) {
	file, err := lookUp(args[0], c.process.Dir, c.process.Env)
	if err != nil {
		return 0, err
	}
	if err := c.process.giveUpPrivileges(); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, file)
	cmd.Args, cmd.Env, cmd.Dir = args, c.process.Env, c.process.Dir
	// Pdeathsig is not needed: Linux kills the command with the init process of the container.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.process.credential(), Setsid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	if err := attached.connect(cmd); err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("exec: %s: %w", file, err)
	}
	attached.started()
	err = cmd.Wait()
	attached.drain()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, fmt.Errorf("command %q was killed: %w", args, context.Cause(ctx))
	case err != nil && !errors.As(err, &exit):
		return 0, err
	}
	return exitCode(cmd.ProcessState.Sys().(syscall.WaitStatus)), nil
}

// attachment connects a command to its streams.
type attachment struct {
	streams       Streams
	stdin         io.WriteCloser
	master, slave *os.File
	output        sync.WaitGroup
}

func attach(streams Streams, uid uint32) (*attachment, error) {
	a := &attachment{streams: streams}
	if !streams.Terminal {
		return a, nil
	}
	var err error
	a.master, a.slave, err = openTerminal(uid)
	return a, err
}

// connect prepares a command before its start.
func (a *attachment) connect(cmd *exec.Cmd) error {
	if a.streams.Terminal {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = a.slave, a.slave, a.slave
		cmd.SysProcAttr.Setctty = true
		cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], "TERM=xterm")
		return nil
	}
	cmd.Stdout, cmd.Stderr = a.streams.Stdout, a.streams.Stderr
	if a.streams.Stdin == nil {
		return nil
	}
	// With cmd.Stdin, Wait would not return before the end of the input.
	var err error
	a.stdin, err = cmd.StdinPipe()
	return err
}

// started starts copying. Copying the input ends with the input, possibly after the command has
// exited: the caller must close the input.
func (a *attachment) started() {
	if a.master == nil {
		if a.stdin != nil {
			go copyInput(a.stdin, a.streams.Stdin)
		}
		return
	}
	a.slave.Close()
	if a.streams.Sizes != nil {
		go resize(a.master, a.streams.Sizes)
	}
	if a.streams.Stdin != nil {
		go func() { _, _ = io.Copy(a.master, a.streams.Stdin) }()
	}
	if a.streams.Stdout != nil {
		a.output.Go(func() { _, _ = io.Copy(a.streams.Stdout, a.master) })
	}
}

func copyInput(stdin io.WriteCloser, source io.Reader) {
	defer stdin.Close()
	_, _ = io.Copy(stdin, source)
}

// drain waits until all output of the command was copied.
func (a *attachment) drain() { a.output.Wait() }

func (a *attachment) close() {
	if a.master != nil {
		a.master.Close()
		a.slave.Close()
	}
}
