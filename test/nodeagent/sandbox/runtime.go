// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Runtime starts containers. They all die with it, even if it is killed.
type Runtime struct {
	state, images string
	spawner       *spawner
}

// NewRuntime makes a runtime for an agent with its state in one directory and
// the programs of images in another one. Both are absolute and without links.
func NewRuntime(state, images string) *Runtime {
	return &Runtime{state: state, images: images, spawner: newSpawner()}
}

// Close ends the runtime. All containers must have ended.
func (r *Runtime) Close() { r.spawner.close() }

// Spec describes a container.
type Spec struct {
	Process Process
	// Stage is an empty directory for the container alone.
	Stage string
	// Files are text files, by path.
	Files map[string]string
	// Mounts are made in this order. The sources have no links in their paths.
	Mounts []Mount
	// ReadOnlyRoot forbids to write to anything but the mounts.
	ReadOnlyRoot bool
	// Net and UTS are the namespaces of the Pod.
	Net, UTS *os.File
	// Stdout and Stderr take what the container prints until it has ended.
	Stdout, Stderr io.Writer
}

// Start starts a container. An error says why its program does not run; then
// nothing is left of it.
func (r *Runtime) Start(ctx context.Context, spec Spec) (*Container, error) {
	config, err := json.Marshal(initConfig{
		Process: spec.Process,
		Root: rootConfig{
			Stage: spec.Stage, State: r.state, Images: r.images,
			Files: spec.Files, Mounts: spec.Mounts, ReadOnly: spec.ReadOnlyRoot,
		},
	})
	if err != nil {
		return nil, err
	}
	channels, err := newChannels()
	if err != nil {
		return nil, err
	}
	defer channels.close()

	// The path leads to this very program even if its file was replaced.
	cmd := exec.Command("/proc/self/exe")
	// The last argument is for people who look at a list of processes.
	cmd.Args, cmd.Env = []string{"node-agent", InitCommand, spec.Stage}, []string{}
	cmd.Stdout, cmd.Stderr = spec.Stdout, spec.Stderr
	cmd.ExtraFiles = []*os.File{channels.configReader, channels.resultWriter, spec.Net, spec.UTS}
	// The package syscall takes a parent in another PID namespace for a dead one
	// and lets the new process kill itself, but the first one of a namespace
	// cannot.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
	}
	if err := r.spawner.do(cmd.Start); err != nil {
		return nil, fmt.Errorf("start the first process of the container, which needs root: %w", err)
	}
	container := &Container{process: spec.Process, cmd: cmd, done: make(chan struct{})}
	go container.wait()
	if err := channels.handshake(ctx, config, container); err != nil {
		container.Kill()
		<-container.Done()
		return nil, err
	}
	return container, nil
}

// channels are how the agent talks with the first process of a container.
type channels struct {
	configReader, configWriter *os.File
	resultReader, resultWriter *os.File
}

func newChannels() (*channels, error) {
	c := &channels{}
	var err error
	if c.configReader, c.configWriter, err = os.Pipe(); err != nil {
		return nil, err
	}
	if c.resultReader, c.resultWriter, err = os.Pipe(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// handshake says what to do and waits until it is done.
func (c *channels) handshake(ctx context.Context, config []byte, container *Container) error {
	defer context.AfterFunc(ctx, container.Kill)()
	c.configReader.Close()
	c.resultWriter.Close()
	if _, err := c.configWriter.Write(config); err != nil {
		return fmt.Errorf("tell the first process of the container what to do: %w", err)
	}
	c.configWriter.Close()
	problem, err := io.ReadAll(c.resultReader)
	if err != nil {
		return err
	}
	if len(problem) > 0 {
		return errors.New(string(problem))
	}
	return ctx.Err()
}

func (c *channels) close() {
	for _, file := range []*os.File{c.configReader, c.configWriter, c.resultReader, c.resultWriter} {
		if file != nil {
			file.Close()
		}
	}
}
