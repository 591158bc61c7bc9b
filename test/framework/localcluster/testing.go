// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

// RunTests runs the tests of a package on clusters of their own, independent of any that were
// started with make up in this checkout, and returns an exit code. The function start starts
// the clusters. When tests fail, the logs of the clusters are kept.
func RunTests(m *testing.M, start func(context.Context, *Set) error) int {
	code, err := runTests(context.Background(), m, start)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func runTests(ctx context.Context, m *testing.M, start func(context.Context, *Set) error) (code int, err error) {
	root, err := repository.Root()
	if err != nil {
		return 1, err
	}
	set, err := Open(root)
	if err != nil {
		return 1, err
	}
	if set.Dir, err = os.MkdirTemp("", "mcs-e2e-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, set.Down(ctx)) }()
	if err := start(ctx, set); err != nil {
		keepLogs(set.Dir)
		return 1, err
	}
	if code = m.Run(); code != 0 {
		keepLogs(set.Dir)
	}
	return code, nil
}

// keepLogs saves the logs of clusters that are about to be removed: those of components and
// of Pods.
func keepLogs(dir string) {
	kept := dir + "-logs"
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || filepath.Ext(path) != ".log" {
			return nil //nolint:nilerr // what can be read is kept
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		data, err := os.ReadFile(path)
		if to := filepath.Join(kept, relative); err == nil && os.MkdirAll(filepath.Dir(to), 0o755) == nil {
			_ = os.WriteFile(to, data, 0o644)
		}
		return nil
	})
	fmt.Fprintln(os.Stderr, "logs of components and Pods are in", kept)
}

// MustKubectl is Kubectl for commands that must succeed: a failure ends the test.
func (c *Cluster) MustKubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := c.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatalf("%s: kubectl %s: %v\n%s", c.Name, strings.Join(args, " "), err, output)
	}
	return output
}

// CreateNamespace creates a namespace in the given clusters and returns its name. The namespace
// is deleted when the test ends.
func CreateNamespace(t *testing.T, name string, in ...*Cluster) string {
	t.Helper()
	for _, cluster := range in {
		cluster.MustKubectl(t, "create", "namespace", name)
		t.Cleanup(func() { _, _ = cluster.Kubectl(context.Background(), "delete", "namespace", name, "--wait=false") })
	}
	return name
}
