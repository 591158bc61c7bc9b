// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netns gives a program a network of its own: nothing else can take
// its ports, and nothing that it does can reach anything but itself.
package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Address is an address in the new network that is not a loopback one, as the
// endpoints of a Service must have. All of 10.250.0.0/16 can be used like it:
// the kernel takes a whole network on the loopback interface for its own.
const Address = "10.250.0.1"

const marker = "MCS_TEST_NETWORK"

// Enter runs this program again, from its start, in a new network namespace,
// and exits with its result. In that second run it sets up the network and
// returns. Without root a user namespace is tried.
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
		return fmt.Errorf("make a network namespace, which needs root or user namespaces: %w", err)
	}
	// The second run is in the same process group and gets the same signals;
	// this one only waits for it.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	code := cmd.ProcessState.ExitCode()
	if code < 0 { // ended by a signal
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
