// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

const (
	storageNamespace = "mcs-storage"
	storagePolicy    = "storage.mcs-apiserver.io"
)

// R186: nothing is withdrawn in any cluster when the storage of one is lost, neither
// while its programs are running nor when they are started. Everything is as before when the
// storage is restored as documented. R500: meanwhile, a server that keeps running follows the
// other cluster.
func TestLostStorageWithdrawsNothing(t *testing.T) {
	x := newExchange(t, "lost")
	west().AwaitRecorded(t)
	backup := t.TempDir()
	shell(t, backup, documented(t, "kubectl get configmap -n mcs-storage storage-marker"))

	t.Run("ConfigMaps deleted by an administrator", func(t *testing.T) {
		stored := kubectl(t, "--context", "west", "get", "configmaps", "-n", storageNamespace, "-l", "storage.mcs-apiserver.io/resource", "-o", "name")
		output, err := run(t.Context(), t, "--context", "west", "delete", "configmaps", "--all", "-n", storageNamespace)
		if wanted := strings.Count(stored, "\n") + 1; err == nil || strings.Count(output, storagePolicy+"' denied request") != wanted {
			t.Errorf("want %d refusals, got %v:\n%s", wanted, err, output)
		}
		x.expectUnchanged(t)
	})
	t.Run("storage namespace deleted", func(t *testing.T) {
		if output, err := run(t.Context(), t, "--context", "west", "delete", "namespace", storageNamespace); err == nil || !strings.Contains(output, storagePolicy) {
			t.Fatalf("deletion was not refused: %v %s", err, output)
		}
		allowDeletion(t)
		kubectl(t, "--context", "west", "delete", "namespace", storageNamespace)
		expectLost(t, "was lost: its marker is missing")
		x.expectServing(t)
		restart(t, west())
		expectUnready(t, west(), "was lost: its marker is missing")
		x.expectNothingWithdrawn(t)
		awaitStorageNamespace(t)
		shell(t, backup, documented(t, "allow-writes=true\nuntil kubectl create"))
		x.expectUnchanged(t)
	})
	// The namespace cannot be deleted completely, and so mcs-controller cannot create it
	// again, while the API is registered and not available.
	t.Run("storage namespace deleted during an outage, and the copy of the marker", func(t *testing.T) {
		stop(t)
		expect.NoError(t, west().Publish(t.Context()))
		allowDeletion(t)
		kubectl(t, "--context", "west", "delete", "namespace", storageNamespace, "--wait=false")
		kubectl(t, "--context", "west", "delete", "configmap", "storage-marker", "-n", installation.Namespace)
		detach(t)
		awaitNoNamespace(t, storageNamespace)
		expect.NoError(t, west().Publish(t.Context(), west().APIServers...))
		expect.NoError(t, errors.Join(west().StartController(t.Context()), west().StartAPIServers()))
		expectUnready(t, west(), "storage is empty, but the cluster was in use: found derived Service "+x.namespace+"/")
		expectUnready(t, west(), "Lease "+installation.Namespace+"/member-east")
		x.expectNothingWithdrawn(t)
		awaitStorageNamespace(t)
		shell(t, backup, documented(t, "allow-writes=true\nuntil kubectl create"))
		attach(t)
		x.expectUnchanged(t)
	})
	t.Run("state of another cluster restored", func(t *testing.T) {
		foreign := foreignBackup(t, backup)
		stop(t)
		replace := documented(t, "kubectl delete configmaps -n mcs-storage")
		shell(t, foreign, replace)
		expect.NoError(t, errors.Join(west().StartController(t.Context()), west().StartAPIServers()))
		expectUnready(t, west(), "storage holds the state of another cluster")
		x.expectNothingWithdrawn(t)
		versions := []string{"--context", "west", "get", "configmaps", "-n", storageNamespace, "-o", "custom-columns=:.metadata.name,:.metadata.resourceVersion"}
		written := kubectl(t, versions...)
		restart(t, west())
		expectUnready(t, west(), "storage holds the state of another cluster")
		if now := kubectl(t, versions...); now != written {
			t.Errorf("storage of another cluster was changed from\n%s to\n%s", written, now)
		}
		stop(t)
		shell(t, backup, replace)
		attach(t)
		x.expectUnchanged(t)
	})
	t.Run("volume of embedded storage deleted", func(t *testing.T) {
		data := east().DataDir()
		east().APIServers[0].Kill()
		expect.NoError(t, os.Rename(data, data+"-backup"))
		restart(t, east())
		expectUnready(t, east(), "was lost: its marker is missing")
		x.expectNothingWithdrawn(t)
		east().APIServers[0].Kill()
		expect.NoError(t, errors.Join(os.RemoveAll(data), os.Rename(data+"-backup", data)))
		restart(t, east())
		x.expectUnchanged(t)
	})
	t.Run("loss accepted", func(t *testing.T) {
		allowDeletion(t)
		kubectl(t, "--context", "west", "delete", "namespace", storageNamespace)
		expectLost(t, "was lost: its marker is missing")
		x.expectServing(t)
		accept(t)
		x.expectWithdrawn(t)
		expect.NoError(t, west().Claim(t.Context(), "west", clusterSet))
		restart(t, west())
		attach(t)
		expect.Eventually(t, "export", func(ctx context.Context) error { return x.exportLater(ctx, west(), "again") })
		east().AwaitImport(t, x.namespace, "again", "west")
	})
}

// accept starts mcs-apiserver in west with --accept-storage, which the documented commands
// add to the Deployment and remove.
func accept(t *testing.T) {
	t.Helper()
	arguments := []string{"--context", "west", "get", "deployment", "-n", installation.Namespace, "mcs-apiserver", "-o", "jsonpath={.spec.template.spec.containers[?(@.name=='mcs-apiserver')].args}"}
	before := kubectl(t, arguments...)
	patch, apply, _ := strings.Cut(documented(t, "--accept-storage"), "kubectl apply")
	shell(t, west().Root, patch)
	expect.Contains(t, kubectl(t, arguments...), `"--accept-storage"`)
	shell(t, west().Root, "kubectl apply"+apply)
	if after := kubectl(t, arguments...); after != before {
		t.Errorf("arguments are %s, were %s", after, before)
	}

	west().APIServerFlags = []string{"--accept-storage"}
	defer func() { west().APIServerFlags = nil }()
	restart(t, west())
	attach(t)
}

// R186: a cluster whose etcd was restored from an older snapshot, with what mcs-apiserver
// stores in it, withdraws nothing that the snapshot has.
func TestRestoredEtcdOfTheClusterWithdrawsNothing(t *testing.T) {
	x := newExchange(t, "snapshot")
	data := west().Plane.EtcdDir()
	west().Plane.Kill(controlplane.Etcd)
	expect.NoError(t, os.CopyFS(data+"-snapshot", os.DirFS(data)))
	expect.NoError(t, west().Plane.Restart(t.Context(), controlplane.Etcd))
	expect.Eventually(t, "later export", func(ctx context.Context) error { return x.exportLater(ctx, west(), "later") })
	east().AwaitImport(t, x.namespace, "later", "west")

	for _, component := range []string{controlplane.ControllerManager, controlplane.APIServer, controlplane.Etcd} {
		west().Plane.Kill(component)
	}
	expect.NoError(t, errors.Join(os.RemoveAll(data), os.Rename(data+"-snapshot", data)))
	for _, component := range []string{controlplane.Etcd, controlplane.APIServer, controlplane.ControllerManager} {
		expect.NoError(t, west().Plane.Restart(t.Context(), component))
	}
	restart(t, west())
	attach(t)
	east().AwaitNoImport(t, x.namespace, "later")
	x.expectUnchanged(t)
}

// allowDeletion annotates the storage namespace as the policy demands.
func allowDeletion(t *testing.T) {
	t.Helper()
	kubectl(t, "--context", "west", "annotate", "namespace", storageNamespace, "storage.mcs-apiserver.io/allow-deletion=true")
	expect.Eventually(t, "permission to delete the storage namespace", func(ctx context.Context) error {
		if output, err := run(ctx, t, "--context", "west", "delete", "namespace", storageNamespace, "--dry-run=server"); err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
}

// awaitStorageNamespace waits until mcs-controller has created the storage namespace.
func awaitStorageNamespace(t *testing.T) {
	t.Helper()
	expect.Eventually(t, "storage namespace", func(ctx context.Context) error {
		namespace, err := west().Kubernetes.CoreV1().Namespaces().Get(ctx, storageNamespace, metav1.GetOptions{})
		if err == nil && namespace.DeletionTimestamp != nil {
			err = errors.New("is being deleted")
		}
		return err
	})
}

// foreignBackup returns a directory with the backup of a cluster that exports nothing.
func foreignBackup(t *testing.T, own string) string {
	t.Helper()
	system := expect.Must(west().Kubernetes.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{}))(t)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"mcs-storage.yaml":    kubectl(t, "--context", "west", "get", "configmaps", "-n", storageNamespace, "-l", "storage.mcs-apiserver.io/resource=clusterclaims.multicluster.k8s.io", "-o", "yaml"),
		"storage-marker.yaml": string(expect.Must(os.ReadFile(filepath.Join(own, "storage-marker.yaml")))(t)),
	} {
		content = strings.ReplaceAll(content, string(system.UID), "5f2f3a0c-1f7e-4a52-9d0e-6f3c0a8b7c11")
		expect.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

// restart ends the programs of a cluster that are running, and starts both.
func restart(t *testing.T, cluster *fleet.Cluster) {
	t.Helper()
	expect.NoError(t, cluster.StopController())
	cluster.APIServers[0].Kill()
	expect.NoError(t, errors.Join(cluster.StartController(t.Context()), cluster.StartAPIServers()))
}

// expectLost waits until users of west are told why its storage is not used.
func expectLost(t *testing.T, reason string) {
	t.Helper()
	for _, path := range []string{"/apis/multicluster.x-k8s.io/v1beta1/serviceexports", "/apis/multicluster.k8s.io/v1/clusterclaims"} {
		expect.Eventually(t, "refusal to list "+path, func(ctx context.Context) error {
			err := west().Kubernetes.Discovery().RESTClient().Get().AbsPath(path).MaxRetries(0).Do(ctx).Error()
			if err == nil {
				t.Fatalf("%s: lost storage is used", path)
			}
			if !strings.Contains(err.Error(), reason) {
				return err
			}
			return nil
		})
	}
}

// expectUnready waits until mcs-apiserver in a cluster says why it is not ready.
func expectUnready(t *testing.T, cluster *fleet.Cluster, reason string) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("%q in /readyz/storage", reason), func(ctx context.Context) error {
		status, text, err := cluster.APIServers[0].Health(ctx, "/readyz/storage")
		if err == nil && (status == 200 || !strings.Contains(text, reason)) {
			err = fmt.Errorf("got %d %s", status, text)
		}
		return err
	})
}
