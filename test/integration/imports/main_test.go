// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package imports tests how what one cluster exports becomes a ServiceImport
// in the others, on real control planes.
package imports

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// clusters are joined by TestMain; a test that changes who is a member of whom
// puts it back.
var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{
		Names: []string{"east", "west", "north"}, ClusterSet: "everywhere",
		Configure: func(_ string, _ *controlplane.Config, installed *installation.Config) {
			installed.APIServerFlags = []string{
				"--member-ttl=30s", // the least, so that nobody waits for longer
				"--audit-policy-file=testdata/audit.yaml", "--audit-log-path=" + auditLog(installed),
			}
		},
	})
}

func auditLog(installed *installation.Config) string {
	return filepath.Join(installed.Dir, "audit.log")
}

func east() *fleet.Cluster  { return clusters.Cluster("east") }
func west() *fleet.Cluster  { return clusters.Cluster("west") }
func north() *fleet.Cluster { return clusters.Cluster("north") }

// equalJSON says whether two values look the same to a client.
func equalJSON(a, b any) bool {
	one, _ := json.Marshal(a)
	other, _ := json.Marshal(b)
	return string(one) == string(other)
}

// must fails the test for anything that cannot go wrong.
func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// namespace makes one namespace in the given clusters.
func namespace(t *testing.T, name string, in ...*fleet.Cluster) string {
	t.Helper()
	for _, cluster := range in {
		if err := cluster.Namespace(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cluster.Kubernetes.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{})
		})
	}
	return name
}

// export makes a Service with endpoints and exports it.
func export(t *testing.T, in *fleet.Cluster, ns, name string, change ...func(*corev1.Service)) {
	t.Helper()
	must(in.Service(t.Context(), ns, name, change...))(t)
	must(in.EndpointSlice(t.Context(), ns, name, []string{"10.9.0.1", "10.9.0.2"}))(t)
	must(in.Export(t.Context(), ns, name))(t)
}

func unexport(t *testing.T, in *fleet.Cluster, ns, name string) {
	t.Helper()
	if err := in.Unexport(t.Context(), ns, name); err != nil {
		t.Fatal(err)
	}
}

func getImport(ctx context.Context, in *fleet.Cluster, ns, name string) (*multiclusterxv1beta1.ServiceImport, error) {
	return in.Clientset.MulticlusterXV1beta1().ServiceImports(ns).Get(ctx, name, metav1.GetOptions{})
}

// awaitImport waits until a cluster imports a service from exactly these clusters.
func awaitImport(t *testing.T, in *fleet.Cluster, ns, name string, from ...string) *multiclusterxv1beta1.ServiceImport {
	t.Helper()
	var found *multiclusterxv1beta1.ServiceImport
	expect.Eventually(t, fmt.Sprintf("import %s/%s in %s", ns, name, in.ID), func(ctx context.Context) error {
		var err error
		if found, err = getImport(ctx, in, ns, name); err != nil {
			return err
		}
		var clusters []string
		for _, cluster := range found.Status.Clusters {
			clusters = append(clusters, cluster.Cluster)
		}
		if strings.Join(clusters, ",") != strings.Join(from, ",") {
			return fmt.Errorf("imported from %v, want %v", clusters, from)
		}
		return nil
	})
	return found
}

// awaitNoImport waits until a cluster does not import a service.
func awaitNoImport(t *testing.T, in *fleet.Cluster, ns, name string) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("end of import %s/%s in %s", ns, name, in.ID), func(ctx context.Context) error {
		switch _, err := getImport(ctx, in, ns, name); {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New("it is still there")
	})
}

// awaitMember waits until a member looks as it should.
func awaitMember(t *testing.T, in *fleet.Cluster, name string, check func(*clustersetv1alpha1.Member) error) {
	t.Helper()
	expect.Eventually(t, fmt.Sprintf("member %s in %s", name, in.ID), func(ctx context.Context) error {
		found, err := in.Clientset.ClusterSetV1alpha1().Members().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return check(found)
	})
}
