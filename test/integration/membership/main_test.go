// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package membership tests how clusters join and leave a ClusterSet: the claims,
// the permissions for them, and kubectl mcs, on real control planes.
package membership

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// clusters are in no ClusterSet. A test that joins clusters makes them leave.
var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{
		Names: []string{"east", "west", "north"},
		Configure: func(id string, _ *controlplane.Config, installed *installation.Config) {
			if id == "north" {
				installed.ControllerFlags = []string{"--cluster-id=pole"}
			}
		},
	})
}

func east() *fleet.Cluster  { return clusters.Cluster("east") }
func west() *fleet.Cluster  { return clusters.Cluster("west") }
func north() *fleet.Cluster { return clusters.Cluster("north") }

// kubeconfig writes a kubeconfig of the administrator with a context per cluster.
func kubeconfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	expect.NoError(t, clusters.WriteKubeconfig(file))
	return file
}

// run runs kubectl with a context per cluster and returns its combined output.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	output, err := clusters.KubectlCommand(t.Context(), kubeconfig(t), args...).CombinedOutput()
	return string(output), err
}

// kubectl runs kubectl, which must succeed.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := run(t, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// refused runs kubectl, which must fail with a message that contains all parts.
func refused(t *testing.T, parts []string, args ...string) {
	t.Helper()
	output, err := run(t, args...)
	if err == nil {
		t.Errorf("kubectl %s was not refused:\n%s", strings.Join(args, " "), output)
		return
	}
	expect.Contains(t, output, parts...)
}

const clusterSet = "everywhere"

// join joins clusters with one command, each under its name, until the test ends.
func join(t *testing.T, names ...string) {
	t.Helper()
	args := []string{"mcs", "join", "--clusterset", clusterSet}
	for _, name := range names {
		args = append(args, name, "--id", name+"="+name)
	}
	t.Cleanup(func() { leave(t, names...) })
	kubectl(t, args...)
}

// leave makes clusters leave and removes their objects in each other.
func leave(t *testing.T, names ...string) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "kubeconfig")
	expect.NoError(t, clusters.WriteKubeconfig(config))
	for _, name := range names {
		others := slices.DeleteFunc(slices.Clone(names), func(other string) bool { return other == name })
		args := []string{"mcs", "leave", name, "--from", strings.Join(others, ",")}
		if output, err := clusters.KubectlCommand(context.Background(), config, args...).CombinedOutput(); err != nil {
			t.Errorf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
		}
	}
	for _, name := range names {
		if left := traces(t, clusters.Cluster(name)); len(left) > 0 {
			t.Errorf("%s still has %v after leaving", name, left)
		}
	}
}

// traces returns all objects of a cluster that belong to its membership, but not
// its ID.
func traces(t *testing.T, in *fleet.Cluster) []string {
	t.Helper()
	ctx := context.Background()
	var found []string
	claims, err := in.Clientset.MulticlusterV1().ClusterClaims().List(ctx, metav1.ListOptions{})
	expect.NoError(t, err)
	for _, claim := range claims.Items {
		if claim.Name == multicluster.ClusterSetClaim {
			found = append(found, "claim "+claim.Spec.Value)
		}
	}
	secrets, err := in.Kubernetes.CoreV1().Secrets(installation.Namespace).List(ctx, metav1.ListOptions{FieldSelector: clusterset.MemberSecretSelector()})
	expect.NoError(t, err)
	for _, secret := range secrets.Items {
		found = append(found, "secret "+secret.Name)
	}
	accounts, err := in.Kubernetes.CoreV1().ServiceAccounts(installation.Namespace).List(ctx, metav1.ListOptions{})
	expect.NoError(t, err)
	for _, account := range accounts.Items {
		if strings.HasPrefix(account.Name, "peer-") {
			found = append(found, "account "+account.Name)
		}
	}
	roles, err := in.Kubernetes.RbacV1().Roles(installation.Namespace).List(ctx, metav1.ListOptions{})
	expect.NoError(t, err)
	for _, role := range roles.Items {
		if strings.HasPrefix(role.Name, clusterset.PeerRole) {
			found = append(found, "role "+role.Name)
		}
	}
	bindings, err := in.Kubernetes.RbacV1().RoleBindings(installation.Namespace).List(ctx, metav1.ListOptions{})
	expect.NoError(t, err)
	for _, binding := range bindings.Items {
		if strings.HasPrefix(binding.Name, clusterset.PeerRole) {
			found = append(found, "binding "+binding.Name)
		}
	}
	clusterBindings, err := in.Kubernetes.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	expect.NoError(t, err)
	for _, binding := range clusterBindings.Items {
		if strings.HasPrefix(binding.Name, clusterset.PeerRole) {
			found = append(found, "cluster binding "+binding.Name)
		}
	}
	return found
}

// claimed returns the value of a claim, or an empty string if it does not exist.
func claimed(t *testing.T, in *fleet.Cluster, name string) string {
	t.Helper()
	list, err := in.Clientset.MulticlusterV1().ClusterClaims().List(t.Context(), metav1.ListOptions{})
	expect.NoError(t, err)
	for _, claim := range list.Items {
		if claim.Name == name {
			return claim.Spec.Value
		}
	}
	return ""
}

// manifest writes the manifest of a claim.
func manifest(t *testing.T, name, value string) string {
	t.Helper()
	return expect.Manifest(t, "apiVersion: multicluster.k8s.io/v1\nkind: ClusterClaim\nmetadata: {name: %s}\nspec: {value: %q}\n", name, value)
}

// export creates a Service with two endpoints and exports it.
func export(t *testing.T, in *fleet.Cluster, ns, name string) {
	t.Helper()
	in.ExportService(t, ns, name, []string{"10.9.0.1", "10.9.0.2"})
}
