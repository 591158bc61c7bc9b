// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"os/exec"
	"strings"
)

// ip runs a command of ip in the network namespace of this machine.
func ip(args ...string) error {
	if output, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

// in runs a command in a network namespace.
func in(namespace string, command ...string) error {
	output, err := exec.Command("nsenter", append([]string{"--net=/run/netns/" + namespace, "--"}, command...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s (in %s): %w: %s", strings.Join(command, " "), namespace, err, strings.TrimSpace(string(output)))
	}
	return nil
}

// inWithInput runs a command with an input in a network namespace.
func inWithInput(namespace, input string, command ...string) error {
	cmd := exec.Command("nsenter", append([]string{"--net=/run/netns/" + namespace, "--"}, command...)...)
	cmd.Stdin = strings.NewReader(input)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s (in %s): %w: %s\n%s", strings.Join(command, " "), namespace, err, output, input)
	}
	return nil
}

// all runs steps until one fails.
func all(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// prepareNamespace enables loopback, and disables duplicate address detection
// so that addresses are usable at once.
func prepareNamespace(namespace string) error {
	if err := in(namespace, "ip", "link", "set", "lo", "up"); err != nil {
		return err
	}
	return in(namespace, "sh", "-c", "echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad && echo 0 >/proc/sys/net/ipv6/conf/all/accept_dad")
}
