// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm tests that Helm installs mcs-apiserver from the chart of a release, in
// another namespace than the default one.
package helm

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// cluster is one in which nothing is installed.
var (
	cluster *localcluster.Cluster
	root    string
)

func TestMain(m *testing.M) { os.Exit(localcluster.RunTests(m, start)) }

func start(ctx context.Context, set *localcluster.Set) (err error) {
	set.Artifacts, root = localcluster.NoArtifacts, set.Root
	if err := set.Up(ctx, "alone"); err != nil {
		return err
	}
	cluster, err = set.Cluster("alone")
	return err
}

// helm runs Helm for the release of the tests. It must succeed.
func helm(t *testing.T, command string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "test", "helm"), append([]string{command, "release", "--namespace", system, "--wait", "--timeout=3m"}, args...)...)
	home := t.TempDir()
	cmd.Env = []string{"HOME=" + home, "PATH=/usr/bin:/bin", "KUBECONFIG=" + cluster.Kubeconfig()}
	output, err := cmd.CombinedOutput()
	if err != nil {
		pods, _ := cluster.Kubectl(t.Context(), "describe", "pods", "-n", system)
		t.Fatalf("helm %s: %v\n%s\n%s", command, err, output, pods)
	}
	return string(output)
}

// chart returns the chart that `make test-images` packed.
func chart(t *testing.T) string {
	t.Helper()
	files := expect.Must(filepath.Glob(filepath.Join(root, "bin", "release", "mcs-apiserver-*.tgz")))(t)
	if len(files) != 1 {
		t.Fatalf("charts in bin/release are %q, want one: run `make test-images`", files)
	}
	return files[0]
}
