// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// namespace is the namespace of a test.
type namespace struct {
	*testing.T
	name string
}

// newNamespace creates a namespace for Pods. It is removed with the cluster.
func newNamespace(t *testing.T, name string) *namespace {
	t.Helper()
	n := &namespace{T: t, name: name}
	n.kubectl("create", "namespace", name)
	n.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=30s")
	return n
}

// command returns a kubectl command of the administrator in this namespace.
func (n *namespace) command(ctx context.Context, args ...string) *exec.Cmd {
	args = append([]string{"--kubeconfig", suite.plane.AdminKubeconfig(), "--namespace", n.name}, args...)
	return exec.CommandContext(ctx, filepath.Join(suite.root, "bin", "kubernetes", "kubectl"), args...)
}

// try runs kubectl and returns its output and exit code.
func (n *namespace) try(input string, args ...string) (stdout, stderr string, code int) {
	n.Helper()
	cmd := n.command(n.Context(), args...)
	var out, problems bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &problems
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		n.Fatal(err)
	}
	return out.String(), problems.String(), cmd.ProcessState.ExitCode()
}

// kubectl runs kubectl, which must succeed, and returns its output.
func (n *namespace) kubectl(args ...string) string {
	n.Helper()
	stdout, stderr, code := n.try("", args...)
	if code != 0 {
		n.Fatalf("kubectl %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// apply applies a manifest.
func (n *namespace) apply(manifest string) {
	n.Helper()
	if stdout, stderr, code := n.try(manifest, "apply", "-f", "-"); code != 0 {
		n.Fatalf("apply: exit code %d\n%s%s\n%s", code, stdout, stderr, manifest)
	}
}

// await waits for a condition of objects with kubectl wait.
func (n *namespace) await(condition string, objects ...string) {
	n.Helper()
	args := append([]string{"wait", "--for=" + condition, "--timeout=" + patience.String()}, objects...)
	if stdout, stderr, code := n.try("", args...); code != 0 {
		described, _, _ := n.try("", append([]string{"describe"}, objects...)...)
		n.Fatalf("waited for %s of %v: %s%s\n%s", condition, objects, stdout, stderr, described)
	}
}

// exec runs a command in the first container of a Pod, which must succeed.
func (n *namespace) exec(pod string, args ...string) string {
	n.Helper()
	return n.kubectl(append([]string{"exec", "--quiet", pod, "--"}, args...)...)
}

// shell runs a script in a container of the Pod "pod".
func (n *namespace) shell(container, script string) string {
	n.Helper()
	return n.kubectl("exec", "pod", "--container", container, "--", "sh", "-c", script)
}

// jsonpath returns a field of an object.
func (n *namespace) jsonpath(object, path string) string {
	n.Helper()
	return n.kubectl("get", object, "-o", "jsonpath={"+path+"}")
}

// eventually waits until f succeeds.
func (n *namespace) eventually(what string, f func() bool) {
	n.Helper()
	for deadline := time.Now().Add(patience); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			n.Fatalf("waited in vain: %s", what)
		}
	}
}

// contains fails unless the text contains each of the lines.
func (n *namespace) contains(text string, lines ...string) {
	n.Helper()
	for _, line := range lines {
		if !strings.Contains("\n"+text+"\n", "\n"+line+"\n") {
			n.Errorf("the line %q is not in:\n%s", line, text)
		}
	}
}
