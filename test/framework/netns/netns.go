// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netns runs a program in a network namespace of its own: no other
// program can take its ports, and the program cannot reach the machine's network.
package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Address is a non-loopback address in the new network namespace, since the
// endpoints of a Service must not be loopback addresses. All of 10.250.0.0/16 is
// usable: the kernel treats a whole network on the loopback interface as local.
const Address = "10.250.0.1"

const marker = "MCS_TEST_NETWORK"

// Enter runs this program again in a new network namespace and exits with its
// exit code. In the second run, Enter sets up the network and returns. Without
// root, it tries a user namespace.
func Enter() error {
	if os.Getenv(marker) != "" {
		return setUp()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), marker+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("create network namespace, which requires root or user namespaces: %w", err)
	}
	// The second run is in the same process group and receives the same signals;
	// the first only waits for it.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	code := cmd.ProcessState.ExitCode()
	if code < 0 { // killed by a signal
		code = 1
	}
	os.Exit(code)
	return nil
}

func setUp() error {
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"address", "add", Address + "/16", "dev", "lo"},
	} {
		if output, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, output)
		}
	}
	return nil
}
