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

// Runtime starts containers. All containers are killed when the process exits, even if it is killed.
type Runtime struct {
	state, images string
	spawner       *spawner
}

// NewRuntime returns a runtime with a state directory and an image directory. Both paths are
// absolute and free of symbolic links.
func NewRuntime(state, images string) *Runtime {
	return &Runtime{state: state, images: images, spawner: newSpawner()}
}

// Close closes the runtime. All containers must have exited.
func (r *Runtime) Close() { r.spawner.close() }

// Spec describes a container.
type Spec struct {
	Process Process
	// Image is a directory of the host with the root file system of the container, which is
	// not changed. If it is empty, the root file system of the host is used, with the image
	// directory.
	Image string
	// Stage is an empty directory of the container.
	Stage string
	// Files are the contents of text files by path.
	Files map[string]string
	// Mounts are mounted in this order. The sources are free of symbolic links.
	Mounts []Mount
	// ReadOnlyRoot makes everything but the mounts read-only.
	ReadOnlyRoot bool
	// Net and UTS are the namespaces of the Pod.
	Net, UTS *os.File
	// Stdout and Stderr receive the output of the container.
	Stdout, Stderr io.Writer
}

// Start starts a container. If it returns an error, the program was not started and nothing is left
// behind.
func (r *Runtime) Start(ctx context.Context, spec Spec) (*Container, error) {
	config, err := json.Marshal(initConfig{
		Process: spec.Process,
		Root: rootConfig{
			Image: spec.Image, Stage: spec.Stage, State: r.state, Images: r.images,
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

	// This path leads to this program even if its file was replaced.
	cmd := exec.Command("/proc/self/exe")
	// The last argument identifies the container in a list of processes.
	cmd.Args, cmd.Env = []string{"node-agent", InitCommand, spec.Stage}, []string{}
	cmd.Stdout, cmd.Stderr = spec.Stdout, spec.Stderr
	cmd.ExtraFiles = []*os.File{channels.configReader, channels.resultWriter, spec.Net, spec.UTS}
	// With Pdeathsig, package syscall would take a parent in another PID namespace for dead, and the
	// new process would try to kill itself, which the init process of a namespace cannot.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC,
		Pdeathsig:  unix.SIGKILL,
	}
	if err := r.spawner.do(cmd.Start); err != nil {
		return nil, fmt.Errorf("start init process of the container, which requires root: %w", err)
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

// channels connect the agent and the init process of a container.
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

// handshake sends the configuration and waits until the program was started.
func (c *channels) handshake(ctx context.Context, config []byte, container *Container) error {
	defer context.AfterFunc(ctx, container.Kill)()
	c.configReader.Close()
	c.resultWriter.Close()
	if _, err := c.configWriter.Write(config); err != nil {
		return fmt.Errorf("send configuration to the init process of the container: %w", err)
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
