// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hub tests clusters that are connected through hubs only, on real
// control planes.
package hub

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
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

// joinHubs joins the clusters as a star with two hubs: the hubs have all clusters
// as members, and all other clusters have the hubs, which may relay for all.
func joinHubs(t *testing.T) {
	t.Helper()
	hubs, relay := []string{"hub-1", "hub-2"}, map[string][]byte{clusterset.MemberSecretRelayFor: []byte("*")}
	for _, cluster := range clusters.Clusters {
		expect.NoError(t, cluster.Claim(t.Context(), cluster.ID, "everywhere"))
	}
	for _, cluster := range clusters.Clusters {
		for _, peer := range clusters.Clusters {
			switch {
			case peer == cluster:
			case slices.Contains(hubs, peer.ID):
				_, err := cluster.Join(t.Context(), peer, relay)
				expect.NoError(t, err)
				expect.NoError(t, peer.RelayTo(t.Context(), cluster.ID))
			case slices.Contains(hubs, cluster.ID):
				_, err := cluster.Join(t.Context(), peer, nil)
				expect.NoError(t, err)
			}
		}
	}
}

func via(want ...string) func(*clustersetv1alpha1.Member) error {
	return func(found *clustersetv1alpha1.Member) error {
		if !slices.Equal(found.Status.Path, want) || found.Status.State != clustersetv1alpha1.MemberConnected {
			return fmt.Errorf("%s by %v, want %v", found.Status.State, found.Status.Path, want)
		}
		return nil
	}
}

// R625: a hub that is named passes an export on to the clusters that are named, and to no other; one
// that is not named does not see it.
func TestHubsPassExportsOnToChosenClusters(t *testing.T) {
	joinHubs(t)
	ns := clusters.CreateNamespace(t, "chosen")
	east, west, first, second := clusters.Cluster("east"), clusters.Cluster("west"), clusters.Cluster("hub-1"), clusters.Cluster("hub-2")
	exportTo := func(name, to string) {
		t.Helper()
		expect.Must(east.Service(t.Context(), ns, name))(t)
		expect.Must(east.EndpointSlice(t.Context(), ns, name, []string{"10.9.0.1"}))(t)
		expect.Must(east.Export(t.Context(), ns, name, func(e *multiclusterxv1beta1.ServiceExport) {
			e.Annotations = map[string]string{multicluster.ExportToAnnotation: to}
		}))(t)
	}
	exportTo("for-west", "hub-1,west")
	exportTo("for-hub", "hub-1")
	exportTo("for-none", "north") // which does not exist
	exportTo("without-hub", "west")
	for _, name := range []string{"for-west", "for-hub"} {
		first.AwaitImport(t, ns, name, "east")
	}
	west.AwaitImport(t, ns, "for-west", "east")
	expect.Eventually(t, "a complete view of east in west", func(ctx context.Context) error {
		member, err := west.Clientset.ClusterSetV1alpha1().Members().Get(ctx, "east", metav1.GetOptions{})
		if err == nil && (!member.Status.Synced || member.Status.Exports != 1) {
			err = fmt.Errorf("%+v", member.Status)
		}
		return err
	})
	for cluster, names := range map[*fleet.Cluster][]string{
		first: {"for-none", "without-hub"}, second: {"for-west", "for-hub", "for-none", "without-hub"}, west: {"for-hub", "for-none", "without-hub"},
	} {
		for _, name := range names {
			cluster.AwaitNoImport(t, ns, name)
		}
	}
}

// R2: clusters that share only hubs import from each other; a withdrawn export is
// removed everywhere, even while the preferred hub is disconnected from the source
// and still holds the export.
func TestExportIsWithdrawnThroughEitherHub(t *testing.T) {
	joinHubs(t)
	ns := clusters.CreateNamespace(t, "relayed")
	east, west := clusters.Cluster("east"), clusters.Cluster("west")
	for _, name := range []string{"web", "db"} {
		east.ExportService(t, ns, name, []string{"10.9.0.1"})
	}
	for _, cluster := range clusters.Clusters {
		cluster.AwaitImport(t, ns, "web", "east")
		cluster.AwaitImport(t, ns, "db", "east")
	}
	west.AwaitMember(t, "east", via("east", "hub-1"))
	expect.Eventually(t, "exports through hub-1", func(ctx context.Context) error {
		exported, err := west.Clientset.ClusterSetV1alpha1().ExportedServices(ns).Get(ctx, "web.east", metav1.GetOptions{})
		if err != nil {
			return err
		}
		received, err := west.Clientset.ClusterSetV1alpha1().ExportedEndpointSlices(ns).List(ctx, metav1.ListOptions{})
		if err == nil && (!slices.Equal(exported.Spec.Path, []string{"east", "hub-1"}) || len(received.Items) != 2) {
			err = fmt.Errorf("path is %v, want [east hub-1]; received %d slices, want 2", exported.Spec.Path, len(received.Items))
		}
		return err
	})

	// The first hub is disconnected from east, and west from the first hub.
	west.Links["hub-1"].Cut()
	clusters.Cluster("hub-1").Links["east"].Cut()
	expect.NoError(t, east.Unexport(t.Context(), ns, "web"))
	clusters.Cluster("hub-2").AwaitNoImport(t, ns, "web")
	west.AwaitMember(t, "east", via("east", "hub-2"))
	west.AwaitNoImport(t, ns, "web")
	west.AwaitImport(t, ns, "db", "east")
	clusters.Cluster("hub-1").AwaitImport(t, ns, "web", "east")

	expect.NoError(t, west.Links["hub-1"].Restore())
	expect.NoError(t, clusters.Cluster("hub-1").Links["east"].Restore())
	clusters.Cluster("hub-1").AwaitNoImport(t, ns, "web")
	west.AwaitMember(t, "east", via("east", "hub-1"))
	west.AwaitNoImport(t, ns, "web")
	west.AwaitImport(t, ns, "db", "east")
}

// A hub relays only the clusters that its member Secret names.
func TestHubRelaysOnlyPermittedClusters(t *testing.T) {
	joinHubs(t)
	ns := clusters.CreateNamespace(t, "restricted")
	east, west := clusters.Cluster("east"), clusters.Cluster("west")
	_, err := east.Service(t.Context(), ns, "web")
	expect.NoError(t, err)
	_, err = east.Export(t.Context(), ns, "web")
	expect.NoError(t, err)
	west.AwaitImport(t, ns, "web", "east")
	for _, hub := range []string{"hub-1", "hub-2"} {
		_, err := west.Join(t.Context(), clusters.Cluster(hub), map[string][]byte{clusterset.MemberSecretRelayFor: []byte("south,hub-1")})
		expect.NoError(t, err)
	}
	west.AwaitNoImport(t, ns, "web")
	// With a direct membership the import returns.
	_, err = west.Join(t.Context(), east, nil)
	expect.NoError(t, err)
	west.AwaitImport(t, ns, "web", "east")
	west.AwaitMember(t, "east", via())
	expect.NoError(t, west.Leave(t.Context(), "east"))
	west.AwaitNoImport(t, ns, "web")
}
