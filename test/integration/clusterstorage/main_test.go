// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterstorage tests a server that stores its objects in the host cluster:
// what it does while its storage cannot be used, and how it recovers.
package clusterstorage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/configmap"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/netns"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

const storageNamespace = "mcs-storage"

// installed has two replicas, which may be stopped.
var installed *installation.Installation

func TestMain(m *testing.M) {
	if err := netns.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	root, err := repository.Root()
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "mcs-clusterstorage-")
	if err != nil {
		return 1, err
	}
	ctx := context.Background()
	plane, err := controlplane.Start(ctx, controlplane.Config{Bin: filepath.Join(root, "bin", "kubernetes"), Dir: filepath.Join(dir, "kubernetes")})
	if err != nil {
		return 1, err
	}
	code := 1
	installed, err = installation.Apply(ctx, installation.Config{
		Plane: plane, Root: root, Dir: dir, Replicas: 2, StorageFlags: []string{"--storage=cluster"},
	})
	if err == nil {
		err = installed.StartController(ctx)
	}
	if err == nil {
		code = m.Run()
	}
	if installed != nil {
		err = errors.Join(err, installed.Stop())
	}
	err = errors.Join(err, plane.Stop())
	if err != nil || code != 0 {
		fmt.Fprintln(os.Stderr, "component logs are in", dir)
		return code, err
	}
	return code, os.RemoveAll(dir)
}

// running starts all programs that are not running and waits until the API is
// available.
func running(t *testing.T) {
	t.Helper()
	startController(t)
	expect.NoError(t, installed.StartAPIServers())
	expect.NoError(t, installed.AwaitAvailable(t.Context()))
}

func startController(t *testing.T) {
	t.Helper()
	if installed.Controller == nil {
		expect.NoError(t, installed.StartController(t.Context()))
	}
}

// stopController stops mcs-controller, which creates the storage namespace and grants
// the permissions.
func stopController(t *testing.T) {
	t.Helper()
	if installed.Controller != nil {
		expect.NoError(t, installed.StopController())
	}
}

// annotate sets an annotation of the storage namespace that suspends its protection.
func annotate(ctx context.Context, name string) error {
	patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: "true"}}}`, name)
	_, err := installed.Kubernetes.CoreV1().Namespaces().Patch(ctx, storageNamespace, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// allowWrites suspends the protection of the ConfigMaps, and waits until this is
// observed and the namespace exists.
func allowWrites(t *testing.T) {
	t.Helper()
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "probe", Labels: map[string]string{configmap.ResourceLabel: "probe"}}}
	expect.Eventually(t, "permission to write ConfigMaps", func(ctx context.Context) error {
		if err := annotate(ctx, "storage.mcs-apiserver.io/allow-writes"); err != nil {
			return err
		}
		configMaps := installed.Kubernetes.CoreV1().ConfigMaps(storageNamespace)
		if _, err := configMaps.Create(ctx, probe, metav1.CreateOptions{}); err != nil {
			return err
		}
		return configMaps.Delete(ctx, probe.Name, metav1.DeleteOptions{})
	})
}

// deleteNamespace deletes the storage namespace on purpose, and waits until it is
// gone or was created again.
func deleteNamespace(t *testing.T) {
	t.Helper()
	namespaces := installed.Kubernetes.CoreV1().Namespaces()
	before, err := namespaces.Get(t.Context(), storageNamespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	expect.NoError(t, err)
	expect.Eventually(t, "permission to delete the storage namespace", func(ctx context.Context) error {
		if err := annotate(ctx, "storage.mcs-apiserver.io/allow-deletion"); err != nil {
			return err
		}
		return namespaces.Delete(ctx, storageNamespace, metav1.DeleteOptions{})
	})
	expect.Eventually(t, "deletion of the storage namespace", func(ctx context.Context) error {
		namespace, err := namespaces.Get(ctx, storageNamespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && namespace.UID != before.UID {
			return nil
		}
		return errors.Join(err, errors.New("namespace still exists"))
	})
}

// reset deletes everything that was stored, and the derived Services, which would show
// that storage was in use. It stops all programs.
func reset(t *testing.T) {
	t.Helper()
	stopController(t)
	expect.NoError(t, installed.StartAPIServers()) // namespaces cannot be deleted while the API is down
	deleteNamespace(t)
	for _, replica := range installed.APIServers {
		if replica.Running() {
			expect.NoError(t, replica.Stop(time.Minute))
		}
	}
	deleteCopy(t)
	derived := metav1.ListOptions{LabelSelector: multicluster.ManagedByLabel + "=" + multicluster.ManagedBy}
	for _, service := range expect.Must(installed.Kubernetes.CoreV1().Services("").List(t.Context(), derived))(t).Items {
		expect.NoError(t, installed.Kubernetes.CoreV1().Services(service.Namespace).Delete(t.Context(), service.Name, metav1.DeleteOptions{}))
	}
}

// deleteCopy deletes the copy of the storage marker.
func deleteCopy(t *testing.T) {
	t.Helper()
	err := installed.Kubernetes.CoreV1().ConfigMaps(installation.Namespace).Delete(t.Context(), marker.Name, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		expect.NoError(t, err)
	}
}

// expectUnready waits until a replica is alive, not ready, and a check says why.
func expectUnready(t *testing.T, replica *installation.Replica, check, reason string) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("%q in /readyz/%s", reason, check), func(ctx context.Context) error {
		status, text, err := replica.Health(ctx, "/readyz/"+check)
		if err == nil && (status == 200 || !strings.Contains(text, reason)) {
			err = fmt.Errorf("got %d %s", status, text)
		}
		return err
	})
	if status, text, err := replica.Health(t.Context(), "/livez"); err != nil || status != 200 {
		t.Errorf("/livez: %d %s, %v", status, text, err)
	}
	if status, _, err := replica.Health(t.Context(), "/readyz"); err != nil || status == 200 {
		t.Errorf("/readyz: %d, %v", status, err)
	}
}

// expectUnavailable waits until a replica answers with 503 and the reason. Lists and
// writes never succeed before that.
func expectUnavailable(t *testing.T, replica *installation.Replica, reason string) {
	t.Helper()
	client := client(t, replica).MulticlusterXV1beta1().RESTClient()
	for what, request := range map[string]*rest.Request{
		"list":   client.Get().Resource("serviceexports"),
		"get":    client.Get().Namespace("default").Resource("serviceexports").Name("absent"),
		"create": client.Post().Namespace("default").Resource("serviceexports").Body(newExport("new")),
	} {
		expect.Eventually(t, what+": 503 with Retry-After and the reason", func(ctx context.Context) error {
			err := request.MaxRetries(0).Do(ctx).Error()
			if err == nil || apierrors.IsNotFound(err) {
				t.Fatalf("%s: got %v while storage is unavailable", what, err)
			}
			if _, retry := apierrors.SuggestsClientDelay(err); !apierrors.IsServiceUnavailable(err) || !retry || !strings.Contains(err.Error(), reason) {
				return fmt.Errorf("got %w, want %q", err, reason)
			}
			return nil
		})
	}
}

// client returns a client for a replica, bypassing the aggregator.
func client(t *testing.T, replica *installation.Replica) versioned.Interface {
	t.Helper()
	config := expect.Must(replica.Config())(t)
	config.QPS = -1
	return expect.Must(versioned.NewForConfig(config))(t)
}
