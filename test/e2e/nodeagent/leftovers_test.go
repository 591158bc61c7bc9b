// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCrash kills the agent with SIGKILL. No process may survive, and the next agent
// must run the same Pods.
func TestCrash(t *testing.T) {
	n := newNamespace(t, "crash")
	n.apply(strings.Replace(sleeper, "infinity", "31415926", 1))
	n.apply(deployment) // whose readiness probe needs the network
	n.await("condition=Ready", "pod/pod")
	n.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
	if !processWith("31415926") || !processWith(path("state/pods")) {
		t.Fatal("process of the Pod not found")
	}
	suite.agent.Kill()
	n.eventually("the processes are gone", func() bool { return !processWith("31415926") && !processWith(path("state/pods")) })
	noMounts(t)
	if err := startAgent(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.await("jsonpath={.status.containerStatuses[0].restartCount}=1", "pod/pod")
	n.await("condition=Ready", "pod/pod")
	n.contains(n.jsonpath("pod/pod", ".status.containerStatuses[0].lastState.terminated.reason"), "ContainerStatusUnknown")
	n.contains(n.exec("pod", "hostname"), "pod")
	n.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
	n.await("jsonpath={.status.containerStatuses[0].restartCount}=1", "pod", "--selector=app=web")
	n.await("condition=Ready", "pod", "--selector=app=web")
	n.kubectl("delete", "namespace", "crash", "--timeout=30s")
}

// TestStop stops the agent, which must leave nothing behind.
func TestStop(t *testing.T) {
	n := newNamespace(t, "stop")
	n.apply(strings.Replace(sleeper, "infinity", "16180339", 1))
	n.await("condition=Ready", "pod/pod")
	if err := suite.agent.Stop(stopPatience); err != nil {
		t.Fatal(err)
	}
	if err := suite.agent.Err(); err != nil {
		t.Errorf("agent exited with %v\n%s", err, suite.agent.LogTail(20))
	}
	if processWith("16180339") {
		t.Error("a process of a Pod is still running")
	}
	if processWith(path("state/pods")) {
		t.Error("an init process of a container is still running")
	}
	noMounts(t)
	links, err := net.Interfaces()
	if err != nil || len(links) != 1 {
		t.Errorf("interfaces are %v, %v", links, err)
	}
	if left := readDir(t, path("state/pods")); len(left) != 0 {
		t.Errorf("leftover Pod directories: %v", left)
	}
}

// processWith reports whether the command line of any process contains a text.
func processWith(text string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if command, err := os.ReadFile(file); err == nil && bytes.Contains(command, []byte(text)) {
			return true
		}
	}
	return false
}

// noMounts fails if anything is mounted below the state directory of the agent.
func noMounts(t *testing.T) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, suite.dir) {
			t.Errorf("unexpected mount: %s", line)
		}
	}
}

func readDir(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
