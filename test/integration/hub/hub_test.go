// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hub tests clusters that know each other through hubs only, on real
// control planes.
package hub

import (
	"context"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{
		Names: []string{"hub-1", "hub-2", "east", "west"},
		Configure: func(_ string, _ *controlplane.Config, installed *installation.Config) {
			installed.APIServerFlags = []string{"--member-ttl=30s"}
		},
	})
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// joinHubs makes a star of two hubs: the hubs have everybody for members, and
// everybody else has the hubs, which may speak for all.
func joinHubs(t *testing.T) {
	t.Helper()
	hubs, relay := []string{"hub-1", "hub-2"}, map[string][]byte{clusterset.MemberSecretRelayFor: []byte("*")}
	for _, cluster := range clusters.Clusters {
		fatal(t, cluster.Claim(t.Context(), cluster.ID, "everywhere"))
	}
	for _, cluster := range clusters.Clusters {
		for _, peer := range clusters.Clusters {
			switch {
			case peer == cluster:
			case slices.Contains(hubs, peer.ID):
				_, err := cluster.Join(t.Context(), peer, relay)
				fatal(t, err)
			case slices.Contains(hubs, cluster.ID):
				_, err := cluster.Join(t.Context(), peer, nil)
				fatal(t, err)
			}
		}
	}
}

func await(t *testing.T, what string, in *fleet.Cluster, ns, name string, there bool) {
	t.Helper()
	expect.Eventually(t, what, func(ctx context.Context) error {
		_, err := in.Clientset.MulticlusterXV1beta1().ServiceImports(ns).Get(ctx, name, metav1.GetOptions{})
		switch {
		case there || err != nil && !apierrors.IsNotFound(err):
			return err
		case err == nil:
			return fmt.Errorf("it is still there")
		}
		return nil
	})
}

// awaitEast waits until a cluster sees east as it should.
func awaitEast(t *testing.T, in *fleet.Cluster, check func(*clustersetv1alpha1.Member) error) {
	t.Helper()
	expect.Eventually(t, "member east in "+in.ID, func(ctx context.Context) error {
		found, err := in.Clientset.ClusterSetV1alpha1().Members().Get(ctx, "east", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return check(found)
	})
}

func via(want ...string) func(*clustersetv1alpha1.Member) error {
	return func(found *clustersetv1alpha1.Member) error {
		if !slices.Equal(found.Status.Path, want) || found.Status.State != clustersetv1alpha1.MemberConnected {
			return fmt.Errorf("%s by %v, want %v", found.Status.State, found.Status.Path, want)
		}
		return nil
	}
}

// R2: clusters that have only hubs in common import from each other; an export
// that is withdrawn is gone everywhere, also while the hub that would be
// believed otherwise has lost touch and still remembers it.
func TestTwoHubsAndAWithdrawnExport(t *testing.T) {
	joinHubs(t)
	const ns = "relayed"
	for _, cluster := range clusters.Clusters {
		fatal(t, cluster.Namespace(t.Context(), ns))
	}
	east, west := clusters.Cluster("east"), clusters.Cluster("west")
	for _, name := range []string{"web", "db"} {
		_, err := east.Service(t.Context(), ns, name)
		fatal(t, err)
		_, err = east.EndpointSlice(t.Context(), ns, name, []string{"10.9.0.1"})
		fatal(t, err)
		_, err = east.Export(t.Context(), ns, name)
		fatal(t, err)
	}
	for _, cluster := range clusters.Clusters {
		await(t, "import in "+cluster.ID, cluster, ns, "web", true)
		await(t, "import in "+cluster.ID, cluster, ns, "db", true)
	}
	awaitEast(t, west, via("east", "hub-1"))
	exported, err := west.Clientset.ClusterSetV1alpha1().ExportedServices(ns).Get(t.Context(), "web.east", metav1.GetOptions{})
	fatal(t, err)
	if !slices.Equal(exported.Spec.Path, []string{"east", "hub-1"}) {
		t.Errorf("the path is %v", exported.Spec.Path)
	}
	slices, err := west.Clientset.ClusterSetV1alpha1().ExportedEndpointSlices(ns).List(t.Context(), metav1.ListOptions{})
	fatal(t, err)
	if len(slices.Items) != 2 {
		t.Errorf("%d slices arrived, want 2", len(slices.Items))
	}

	// The first hub loses touch with east, and west with the first hub.
	west.Links["hub-1"].Cut()
	clusters.Cluster("hub-1").Links["east"].Cut()
	fatal(t, east.Unexport(t.Context(), ns, "web"))
	await(t, "withdrawal in hub-2", clusters.Cluster("hub-2"), ns, "web", false)
	awaitEast(t, west, via("east", "hub-2"))
	await(t, "withdrawal in west", west, ns, "web", false)
	await(t, "the other export in west", west, ns, "db", true)
	await(t, "the first hub remembers", clusters.Cluster("hub-1"), ns, "web", true)

	fatal(t, west.Links["hub-1"].Restore())
	fatal(t, clusters.Cluster("hub-1").Links["east"].Restore())
	await(t, "withdrawal in hub-1", clusters.Cluster("hub-1"), ns, "web", false)
	awaitEast(t, west, via("east", "hub-1"))
	await(t, "withdrawal in west", west, ns, "web", false)
	await(t, "the other export in west", west, ns, "db", true)
}

// Nobody speaks for another cluster unless its Secret says so.
func TestHubSpeaksOnlyForThoseItMay(t *testing.T) {
	joinHubs(t)
	const ns = "restricted"
	east, west := clusters.Cluster("east"), clusters.Cluster("west")
	for _, cluster := range clusters.Clusters {
		fatal(t, cluster.Namespace(t.Context(), ns))
	}
	_, err := east.Service(t.Context(), ns, "web")
	fatal(t, err)
	_, err = east.Export(t.Context(), ns, "web")
	fatal(t, err)
	await(t, "import in west", west, ns, "web", true)
	for _, hub := range []string{"hub-1", "hub-2"} {
		_, err := west.Join(t.Context(), clusters.Cluster(hub), map[string][]byte{clusterset.MemberSecretRelayFor: []byte("south,hub-1")})
		fatal(t, err)
	}
	await(t, "end of the import in west", west, ns, "web", false)
	// Directly it is a member again.
	_, err = west.Join(t.Context(), east, nil)
	fatal(t, err)
	await(t, "import in west", west, ns, "web", true)
	awaitEast(t, west, via())
	fatal(t, west.Leave(t.Context(), "east"))
	await(t, "end of the import in west", west, ns, "web", false)
}
