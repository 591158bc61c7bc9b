// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// documentedDelete returns the arguments of the documented kubectl command that
// removes a cluster from its peers without the plugin.
func documentedDelete(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(east().Root, "docs", "clustersets.md"))
	expect.NoError(t, err)
	commands := regexp.MustCompile(`(?m)^ *kubectl (delete -n mcs-system (?:[^\n]*\\\n)*[^\n]*)$`).FindAllStringSubmatch(string(text), -1)
	if len(commands) != 1 {
		t.Fatalf("docs/clustersets.md has %d commands that delete objects of mcs-system, want 1", len(commands))
	}
	return strings.Fields(strings.ReplaceAll(commands[0][1], "\\\n", " "))
}

// peerObjects returns the objects that a cluster has for a peer.
func peerObjects(t *testing.T, in *fleet.Cluster, peer string) []string {
	t.Helper()
	return slices.DeleteFunc(traces(t, in), func(trace string) bool { return !strings.HasSuffix(trace, peer) })
}

func expectForgotten(t *testing.T, peer string, in ...*fleet.Cluster) {
	t.Helper()
	for _, cluster := range in {
		if left := peerObjects(t, cluster, peer); len(left) > 0 {
			t.Errorf("%s still has %v", cluster.ID, left)
		}
	}
}

// The documented command removes everything that join created for a cluster.
func TestDocumentedDeleteLeavesNothingOfACluster(t *testing.T) {
	join(t, "east", "west", "north")
	for _, cluster := range []*fleet.Cluster{east(), west()} {
		if made := peerObjects(t, cluster, "north"); len(made) != 5 {
			t.Fatalf("%s has %v for north, want 5 objects", cluster.ID, made)
		}
		kubectl(t, append([]string{"--context", cluster.ID}, documentedDelete(t)...)...)
	}
	expectForgotten(t, "north", east(), west())
	for cluster, peer := range map[*fleet.Cluster]string{east(): "west", west(): "east"} {
		if kept := peerObjects(t, cluster, peer); len(kept) != 5 {
			t.Errorf("%s has only %v for %s", cluster.ID, kept, peer)
		}
	}
}

// A cluster that no longer exists is removed from its peers by its ID.
func TestLeaveOfAClusterWithoutAContext(t *testing.T) {
	join(t, "east", "west", "north")
	file := kubeconfig(t)
	config, err := clientcmd.LoadFromFile(file)
	expect.NoError(t, err)
	delete(config.Contexts, "north")
	expect.NoError(t, clientcmd.WriteToFile(*config, file))
	leaveNorth := func() (string, error) {
		output, err := clusters.KubectlCommand(t.Context(), file, "mcs", "leave", "north", "--from", "east,west").CombinedOutput()
		return string(output), err
	}
	output, err := leaveNorth()
	if err == nil {
		t.Errorf("leave removed a connected cluster:\n%s", output)
	}
	expect.Contains(t, output, `context "north" does not exist in the kubeconfig`, `cluster "north" is still connected`)

	// Without its peer accounts, north rejects all requests.
	for _, peer := range []string{"peer-east", "peer-west"} {
		expect.NoError(t, north().Kubernetes.CoreV1().ServiceAccounts("mcs-system").Delete(t.Context(), peer, metav1.DeleteOptions{}))
	}
	for _, cluster := range []*fleet.Cluster{east(), west()} {
		expect.Eventually(t, "north to be disconnected from "+cluster.ID, func(ctx context.Context) error {
			member, err := cluster.Clientset.ClusterSetV1alpha1().Members().Get(ctx, "north", metav1.GetOptions{})
			if err == nil && member.Status.State == clustersetv1alpha1.MemberConnected {
				err = errors.New("north is connected")
			}
			return err
		})
	}
	output, err = leaveNorth()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	expect.Contains(t, output, `Cluster "north" was removed from east, west.`)
	expectForgotten(t, "north", east(), west())
}
