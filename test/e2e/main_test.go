// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests whole clusters: real control planes, kube-proxy and CoreDNS,
// with mcs-apiserver installed as a user would install it.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

var (
	set        *localcluster.Set
	east, west *localcluster.Cluster
	// tookUp is how long starting both clusters took.
	tookUp time.Duration
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// run runs the tests on two clusters of their own, independent of any that were
// started with make up in this checkout.
func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	root, err := repository.Root()
	if err != nil {
		return 1, err
	}
	if set, err = localcluster.Open(root); err != nil {
		return 1, err
	}
	if set.Dir, err = os.MkdirTemp("", "mcs-e2e-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, set.Down(ctx)) }()
	started := time.Now()
	if err := set.Up(ctx, "east", "west"); err != nil {
		keep(set.Dir)
		return 1, err
	}
	tookUp = time.Since(started)
	if err := set.Join(ctx, "e2e"); err != nil {
		keep(set.Dir)
		return 1, err
	}
	if east, err = set.Cluster("east"); err != nil {
		return 1, err
	}
	if west, err = set.Cluster("west"); err != nil {
		return 1, err
	}
	if code = m.Run(); code != 0 {
		keep(set.Dir)
	}
	return code, nil
}

// keep saves the logs of clusters that are about to be removed.
func keep(dir string) {
	kept := dir + "-logs"
	logs, _ := filepath.Glob(filepath.Join(dir, "*", "*.log"))
	for _, log := range logs {
		data, err := os.ReadFile(log)
		if err != nil {
			continue
		}
		to := filepath.Join(kept, filepath.Base(filepath.Dir(log)), filepath.Base(log))
		if os.MkdirAll(filepath.Dir(to), 0o755) == nil {
			_ = os.WriteFile(to, data, 0o644)
		}
	}
	fmt.Fprintln(os.Stderr, "component logs are in", kept)
}

// kubectl runs kubectl in a cluster. It must succeed.
func kubectl(t *testing.T, cluster *localcluster.Cluster, args ...string) string {
	t.Helper()
	output, err := cluster.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatalf("%s: kubectl %s: %v\n%s", cluster.Name, strings.Join(args, " "), err, output)
	}
	return output
}

// apply applies manifests to a namespace of a cluster.
func apply(t *testing.T, cluster *localcluster.Cluster, namespace, manifests string) {
	t.Helper()
	kubectl(t, cluster, "apply", "-n", namespace, "-f", expect.Manifest(t, "%s", manifests))
}

// namespace creates a namespace of the same name in both clusters for one test.
func namespace(t *testing.T, name string) string {
	t.Helper()
	for _, cluster := range []*localcluster.Cluster{east, west} {
		kubectl(t, cluster, "create", "namespace", name)
		t.Cleanup(func() { _, _ = cluster.Kubectl(context.Background(), "delete", "namespace", name, "--wait=false") })
	}
	return name
}

// exec runs a command in a Pod and returns its output.
func exec(ctx context.Context, cluster *localcluster.Cluster, namespace, pod string, command ...string) (string, error) {
	output, err := cluster.Kubectl(ctx, append([]string{"exec", "-n", namespace, pod, "--"}, command...)...)
	return strings.TrimSpace(output), err
}

// eventually runs a command in a Pod until it prints the expected output.
func eventually(t *testing.T, cluster *localcluster.Cluster, namespace, pod string, good func(output string) bool, command ...string) {
	t.Helper()
	expect.Eventually(t, strings.Join(command, " "), func(ctx context.Context) error {
		output, err := exec(ctx, cluster, namespace, pod, command...)
		if err != nil || !good(output) {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
}
