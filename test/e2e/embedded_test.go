// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// artifacts/embedded installs one replica with an embedded etcd on a volume, from where
// objects can be moved to the cluster. Stopping the cluster leaves nothing behind, even if
// all of its components crashed, and does not affect other clusters.
func TestClusterWithEmbeddedStorage(t *testing.T) {
	other := expect.Must(localcluster.Open(set.Root))(t)
	other.Dir, other.Artifacts = t.TempDir(), "embedded"
	t.Cleanup(func() { expect.NoError(t, other.Down(context.Background())) })
	expect.NoError(t, other.Up(t.Context(), "lonely"))
	lonely := expect.Must(other.Cluster("lonely"))(t)
	expect.Contains(t, kubectl(t, lonely, "get", "persistentvolumeclaims,deployments", "-n", "mcs-system"),
		"persistentvolumeclaim/mcs-apiserver", "deployment.apps/mcs-apiserver", "1/1")
	survivesAFullDisk(t, lonely)
	defaultDoesNotReplaceEmbedded(t, lonely)
	movesToTheCluster(t, lonely)

	apply(t, lonely, "default", client)
	kubectl(t, lonely, "wait", "pod/client", "--for=condition=Ready", "--timeout=100s")
	for _, component := range []string{localcluster.NodeAgent, localcluster.APIServer, localcluster.Etcd} {
		expect.NoError(t, lonely.Kill(component))
	}
	expect.NoError(t, other.Down(t.Context()))
	for _, thing := range expect.Must(other.Leftovers())(t) {
		t.Errorf("leftover: %s", thing)
	}
	kubectl(t, east, "get", "--raw", "/readyz")
}

// survivesAFullDisk fills the volume of the embedded etcd. That prevents the server from
// storing objects, and affects nothing else; when the disk has room again, the server
// recovers by itself.
func survivesAFullDisk(t *testing.T, cluster *localcluster.Cluster) {
	t.Helper()
	create := func(ctx context.Context, name string) error {
		output, err := cluster.Kubectl(ctx, "create", "-f", expect.Manifest(t,
			"apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {name: %s, annotations: {large: %q}}\n",
			name, strings.Repeat("x", 200_000)))
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	}
	expect.NoError(t, create(t.Context(), "before"))
	expect.NoError(t, cluster.FillDisk(localcluster.NodeAgent))
	// etcd has preallocated space: at most 64 MiB.
	refused := false
	for i := 0; i < 400 && !refused; i++ {
		refused = create(t.Context(), fmt.Sprintf("during-%d", i)) != nil
	}
	if !refused {
		t.Error("all objects are stored although the disk is full")
	}
	kubectl(t, cluster, "get", "services", "-A")
	expect.NoError(t, cluster.FreeDisk(localcluster.NodeAgent))
	expect.Eventually(t, "server after the disk was freed", func(ctx context.Context) error {
		if err := create(ctx, "after"); err != nil && !strings.Contains(err.Error(), "already exists") {
			return err
		}
		_, err := cluster.Kubectl(ctx, "get", "svcex", "before")
		return err
	})
}

// R175: artifacts/migrate-from-embedded moves all objects from the volume to the
// cluster, so that artifacts/default finds them there.
func movesToTheCluster(t *testing.T, cluster *localcluster.Cluster) {
	t.Helper()
	stored := func() string {
		return kubectl(t, cluster, "get", "serviceexports,clusterclaims", "-A", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.metadata.creationTimestamp}{"\n"}{end}`)
	}
	before := stored()
	for _, artifacts := range []string{"migrate-from-embedded", "default"} {
		kubectl(t, cluster, "apply", "-k", filepath.Join(set.Root, "artifacts", artifacts))
		kubectl(t, cluster, "rollout", "status", "deployment/mcs-apiserver", "-n", "mcs-system", "--timeout=100s")
		expect.Eventually(t, "objects with artifacts/"+artifacts, func(ctx context.Context) error {
			if _, err := cluster.Kubectl(ctx, "get", "serviceexports,clusterclaims", "-A"); err != nil {
				return err // the kube-apiserver observes later that the API is available
			}
			if after := stored(); after != before {
				return fmt.Errorf("stored are\n%s, want\n%s", after, before)
			}
			return nil
		})
	}
	kubectl(t, cluster, "delete", "persistentvolumeclaim", "mcs-apiserver", "-n", "mcs-system")
	// The way back differs from artifacts/embedded only in a flag.
	back := kubectl(t, cluster, "apply", "--dry-run=server", "-o", "yaml", "-k", filepath.Join(set.Root, "artifacts", "migrate-to-embedded"))
	expect.Contains(t, back, "- --storage=embedded\n", "- --migrate-from=cluster\n")
}
