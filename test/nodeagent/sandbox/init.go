// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// InitCommand is the first argument with which the agent runs itself as the init process of a
// container.
const InitCommand = "container-init"

// Files that are passed to the init process of a container.
const (
	configFile = 3 + iota // configuration in JSON
	resultFile            // receives the error if the program could not be started
	netFile               // the network namespace to join
	utsFile               // the UTS namespace to join
)

// initConfig is the configuration of the init process of a container.
type initConfig struct {
	Root    rootConfig
	Process Process
}

// Init is the init process of a container. It sets up the container, starts the program, forwards
// signals, reaps orphans, and returns the exit code of the program. The program itself is not the
// init process, because Linux ignores signals for which an init process has no handler.
//
// Init must be called from the main goroutine, locked to its thread, in new mount and PID
// namespaces.
func Init() int {
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	for file := configFile; file <= utsFile; file++ {
		unix.CloseOnExec(file)
	}
	result := os.NewFile(resultFile, "result")
	pid, err := startProgram()
	if err != nil {
		fmt.Fprintf(result, "%v", err)
		return startErrorCode
	}
	if err := result.Close(); err != nil {
		return startErrorCode
	}
	go forward(signals, pid)
	return reap(pid)
}

// startErrorCode is the exit code of a container whose program did not start.
const startErrorCode = 128

func startProgram() (int, error) {
	config, err := readConfig()
	if err != nil {
		return 0, err
	}
	for _, namespace := range []struct{ file, kind int }{{netFile, unix.CLONE_NEWNET}, {utsFile, unix.CLONE_NEWUTS}} {
		if err := unix.Setns(namespace.file, namespace.kind); err != nil {
			return 0, fmt.Errorf("join namespaces of the Pod: %w", err)
		}
	}
	if err := config.Root.enter(); err != nil {
		return 0, fmt.Errorf("create file system of the container: %w", err)
	}
	process := config.Process
	// Like container runtimes, create a missing working directory.
	if err := os.MkdirAll(process.Dir, 0o755); err != nil {
		return 0, fmt.Errorf("create working directory: %w", err)
	}
	if err := config.Root.seal(); err != nil {
		return 0, fmt.Errorf("make file system of the container read-only: %w", err)
	}
	file, err := lookUp(process.Args[0], process.Dir, process.Env)
	if err != nil {
		return 0, err
	}
	if err := process.giveUpPrivileges(); err != nil {
		return 0, err
	}
	// The user of the process must be able to open /dev/stdout and /dev/stderr.
	for _, stream := range []int{1, 2} {
		if err := unix.Fchown(stream, int(process.UID), -1); err != nil {
			return 0, fmt.Errorf("change owner of the output: %w", err)
		}
	}
	pid, err := syscall.ForkExec(file, process.Args, &syscall.ProcAttr{
		Dir:   process.Dir,
		Env:   process.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Credential: process.credential(), Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("exec: %s: %w", file, err)
	}
	return pid, nil
}

func readConfig() (*initConfig, error) {
	data, err := io.ReadAll(os.NewFile(configFile, "config"))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	config := &initConfig{}
	if err := json.Unmarshal(data, config); err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if len(config.Process.Args) == 0 {
		return nil, fmt.Errorf("no program given")
	}
	return config, nil
}

// forward forwards signals until the process exits.
func forward(signals <-chan os.Signal, pid int) {
	for received := range signals {
		switch received {
		case unix.SIGCHLD, unix.SIGURG, unix.SIGPIPE: // meant for this process
		default:
			_ = unix.Kill(pid, received.(syscall.Signal))
		}
	}
}

// reap waits for all children and returns the exit code of the given one when it exits. Linux kills
// the others when this process exits.
func reap(pid int) int {
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			fmt.Fprintln(os.Stderr, "container-init: wait for program:", err)
			return startErrorCode
		case ended == pid:
			return exitCode(status)
		}
	}
}
