// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outage tests what happens in a cluster while its mcs-apiserver is down or
// its API is detached, and afterwards; what happens when its storage is lost; and how it is
// uninstalled. The outages are those of west, which stores objects in the cluster; east,
// with an embedded etcd, is a member of the same ClusterSet. Every test leaves west attached
// and available.
package outage

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/documents"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

const clusterSet = "outage"

var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{
		Names: []string{"east", "west"}, ClusterSet: clusterSet,
		Configure: func(id string, plane *controlplane.Config, installed *installation.Config) {
			installed.StorageFlags = installed.EmbeddedStorage()
			if id == "west" {
				installed.StorageFlags = []string{"--storage=cluster"}
				plane.ControllerManagerFlags = []string{"--horizontal-pod-autoscaler-sync-period=1s"}
			}
		},
	})
}

func east() *fleet.Cluster { return clusters.Cluster("east") }
func west() *fleet.Cluster { return clusters.Cluster("west") }

// run runs kubectl with a context per cluster and returns its combined output.
func run(ctx context.Context, t *testing.T, args ...string) (string, error) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clusters.WriteKubeconfig(kubeconfig); err != nil {
		return "", err
	}
	output, err := clusters.KubectlCommand(ctx, kubeconfig, args...).CombinedOutput()
	return string(output), err
}

// documented returns the only script in docs/operations.md that contains a text.
func documented(t *testing.T, text string) string {
	t.Helper()
	var found []string
	for _, block := range expect.Must(documents.Read(os.DirFS(west().Root)))(t) {
		if script := block.Commands(); block.Page == "docs/operations.md" && strings.Contains(script, text) {
			found = append(found, script)
		}
	}
	if len(found) != 1 {
		t.Fatalf("docs/operations.md has %d scripts with %q, want 1", len(found), text)
	}
	return found[0]
}

// shell runs a script in a directory, with west as the current context. It must succeed.
func shell(t *testing.T, dir, script string) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	expect.NoError(t, clusters.WriteKubeconfig(kubeconfig))
	cmd := clusters.KubectlCommand(t.Context(), kubeconfig)
	cmd.Path, cmd.Args, cmd.Dir = "/bin/bash", []string{"bash", "-euo", "pipefail", "-c", "kubectl config use-context west\n" + script}, dir
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, output)
	}
}

// kubectl runs kubectl, which must succeed.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := run(t.Context(), t, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// stop ends both programs in west, as if their Pods were gone.
func stop(t *testing.T) {
	t.Helper()
	expect.NoError(t, west().StopController())
	west().APIServers[0].Kill()
}

// attach starts the programs in west that are not running, attaches the API, and
// waits until it is available.
func attach(t *testing.T) {
	t.Helper()
	if west().Controller == nil {
		expect.NoError(t, west().StartController(context.Background()))
	}
	expect.NoError(t, west().StartAPIServers())
	if output, err := run(context.Background(), t, "mcs", "attach", "west"); err != nil {
		t.Fatalf("attach: %v\n%s", err, output)
	}
	expect.NoError(t, west().AwaitAvailable(context.Background()))
}

// detach detaches the API of west until the test ends.
func detach(t *testing.T) string {
	t.Helper()
	t.Cleanup(func() { attach(t) })
	return kubectl(t, "mcs", "detach", "west", "--yes")
}

// apiServices returns the names of the APIServices of mcs-apiserver in west.
func apiServices(ctx context.Context) ([]string, error) {
	list, err := west().Aggregator.ApiregistrationV1().APIServices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, item := range list.Items {
		if item.Spec.Service != nil && item.Spec.Service.Namespace == installation.Namespace {
			names = append(names, item.Name)
		}
	}
	return names, nil
}

// readiness returns what mcs-controller in west reports at /readyz.
func readiness(ctx context.Context) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, west().HealthURL()+"/readyz", nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// controllerLog returns the log of mcs-controller in west.
func controllerLog(t *testing.T) string {
	t.Helper()
	return string(expect.Must(os.ReadFile(filepath.Join(west().Dir, "mcs-controller.log")))(t))
}

// awaitNoNamespace waits until a namespace of west is deleted.
func awaitNoNamespace(t *testing.T, name string) {
	t.Helper()
	expect.Eventually(t, "deletion of namespace "+name, func(ctx context.Context) error {
		namespace, err := west().Kubernetes.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%v %w", namespace.Status, err)
	})
}

// createNamespace creates a namespace in west, until the test ends, and returns it.
func createNamespace(t *testing.T, name string) *corev1.Namespace {
	t.Helper()
	fleet.CreateNamespace(t, name, west())
	return expect.Must(west().Kubernetes.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{}))(t)
}
