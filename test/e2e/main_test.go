// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests whole clusters: real control planes, kube-proxy and CoreDNS,
// with mcs-apiserver installed as a user would install it.
package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

var (
	set        *localcluster.Set
	east, west *localcluster.Cluster
	// tookUp is how long starting both clusters took.
	tookUp time.Duration
)

func TestMain(m *testing.M) { os.Exit(localcluster.RunTests(m, start)) }

func start(ctx context.Context, clusters *localcluster.Set) (err error) {
	set = clusters
	started := time.Now()
	if err := set.Up(ctx, "east", "west"); err != nil {
		return err
	}
	tookUp = time.Since(started)
	if err := set.Join(ctx, "e2e"); err != nil {
		return err
	}
	if east, err = set.Cluster("east"); err != nil {
		return err
	}
	west, err = set.Cluster("west")
	return err
}

// kubectl runs kubectl in a cluster. It must succeed.
func kubectl(t *testing.T, cluster *localcluster.Cluster, args ...string) string {
	t.Helper()
	return cluster.MustKubectl(t, args...)
}

// apply applies manifests to a namespace of a cluster.
func apply(t *testing.T, cluster *localcluster.Cluster, namespace, manifests string) {
	t.Helper()
	kubectl(t, cluster, "apply", "-n", namespace, "-f", expect.Manifest(t, "%s", manifests))
}

// namespace creates a namespace of the same name in both clusters for one test.
func namespace(t *testing.T, name string) string {
	t.Helper()
	return localcluster.CreateNamespace(t, name, east, west)
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
