// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory tests what several replicas of one cluster know of a member, and
// what they still know of it after a restart, on real control planes.
package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// ttl is the minimum, to keep the tests short.
const ttl = 30 * time.Second

var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{
		Names: []string{"east", "west"}, ClusterSet: "everywhere",
		Configure: func(id string, _ *controlplane.Config, installed *installation.Config) {
			if id == "east" {
				installed.Replicas = 2
			}
			installed.APIServerFlags = []string{"--member-ttl=" + ttl.String()}
		},
	})
}

// east has two replicas.
func east() *fleet.Cluster { return clusters.Cluster("east") }
func west() *fleet.Cluster { return clusters.Cluster("west") }

// client returns a client of one replica, bypassing the aggregator.
func client(t *testing.T, replica *installation.Replica) versioned.Interface {
	t.Helper()
	return expect.Must(versioned.NewForConfig(expect.Must(replica.Config())(t)))(t)
}

// stateOfWest returns the state of west in one replica.
func stateOfWest(ctx context.Context, t *testing.T, replica *installation.Replica) (*clustersetv1alpha1.Member, error) {
	t.Helper()
	return client(t, replica).ClusterSetV1alpha1().Members().Get(ctx, "west", metav1.GetOptions{})
}

func awaitWest(t *testing.T, replica *installation.Replica, want clustersetv1alpha1.MemberState) *clustersetv1alpha1.Member {
	t.Helper()
	var found *clustersetv1alpha1.Member
	expect.Eventually(t, fmt.Sprintf("west is %s in %s", want, replica.Address), func(ctx context.Context) (err error) {
		if found, err = stateOfWest(ctx, t, replica); err == nil && found.Status.State != want {
			err = fmt.Errorf("it is %s", found.Status.State)
		}
		return err
	})
	return found
}

// restart restarts a replica, with additional environment.
func restart(ctx context.Context, t *testing.T, replica *installation.Replica, env ...string) {
	t.Helper()
	replica.Kill()
	replica.Env = env
	expect.NoError(t, replica.Start())
	expect.NoError(t, replica.AwaitReady(ctx))
}

// withoutLinks is the environment of a replica that does not reach other clusters: all
// connections but those to its own cluster and to itself go to a proxy that does not exist.
func withoutLinks() []string {
	own := []string{east().Plane.Endpoint(), strings.TrimPrefix(east().Plane.EtcdURL(), "http://"), east().APIServers[1].Address}
	return []string{"HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=" + strings.Join(own, ",")}
}

// imported returns the imported EndpointSlices of west in east, with their versions.
func imported(ctx context.Context, ns string) (map[string]string, error) {
	list, err := east().Kubernetes.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{
		LabelSelector: multicluster.SourceClusterLabel + "=west," + discoveryv1.LabelManagedBy + "=" + multicluster.ManagedBy,
	})
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, slice := range list.Items {
		found[slice.Name] = fmt.Sprintf("%s, %d endpoints", slice.ResourceVersion, len(slice.Endpoints))
	}
	return found, nil
}

// exportMany exports services of west, one of them with more endpoints than an imported
// EndpointSlice may have, and waits until they are imported and recorded.
func exportMany(t *testing.T, ns string) map[string]string {
	t.Helper()
	var many []string
	for i := range 250 {
		many = append(many, fmt.Sprintf("10.8.1.%d", i+1))
	}
	west().ExportService(t, ns, "large", many)
	west().ExportService(t, ns, "web", []string{"10.8.0.1", "10.8.0.2"})
	expect.Must(west().EndpointSlice(t.Context(), ns, "web", []string{"10.8.0.7"}, func(slice *discoveryv1.EndpointSlice) {
		slice.Name = "web-more"
		slice.Endpoints[0].Hostname, slice.Endpoints[0].Zone, slice.Endpoints[0].NodeName = ptr.To("web-7"), ptr.To("z1"), ptr.To("node-1")
	}))(t)
	east().AwaitImport(t, ns, "large", "west")
	east().AwaitImport(t, ns, "web", "west")
	var found map[string]string
	expect.Eventually(t, "imported EndpointSlices", func(ctx context.Context) (err error) {
		if found, err = imported(ctx, ns); err == nil && len(found) != 5 {
			err = fmt.Errorf("found %v", found)
		}
		return err
	})
	for _, replica := range east().APIServers {
		expect.Eventually(t, "exports in "+replica.Address, func(context.Context) error {
			if services, endpoints := exported(t, replica, ns); len(services) != 2 || len(endpoints) != 3 {
				return fmt.Errorf("%d services and %d EndpointSlices", len(services), len(endpoints))
			}
			return nil
		})
	}
	east().AwaitRecorded(t)
	return found
}

// exported returns what a replica knows of the exports of west, without metadata that
// differs between replicas.
func exported(t *testing.T, replica *installation.Replica, ns string) (services []clustersetv1alpha1.ExportedService, endpoints []clustersetv1alpha1.ExportedEndpointSlice) {
	t.Helper()
	own, options := client(t, replica).ClusterSetV1alpha1(), metav1.ListOptions{LabelSelector: multicluster.SourceClusterLabel + "=west"}
	services = expect.Must(own.ExportedServices(ns).List(t.Context(), options))(t).Items
	endpoints = expect.Must(own.ExportedEndpointSlices(ns).List(t.Context(), options))(t).Items
	for i := range services {
		services[i].ResourceVersion = ""
	}
	for i := range endpoints {
		endpoints[i].ResourceVersion = ""
	}
	slices.SortFunc(services, func(a, b clustersetv1alpha1.ExportedService) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(endpoints, func(a, b clustersetv1alpha1.ExportedEndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return services, endpoints
}

// R166: after a restart of all replicas during a partition, exports and endpoints of the
// member are exactly as before, and nothing is written.
func TestEndpointsAreTheSameAfterARestart(t *testing.T) {
	ns := clusters.CreateNamespace(t, "restored")
	before := exportMany(t, ns)
	services, endpoints := exported(t, east().APIServers[0], ns)
	link := east().Links["west"]
	t.Cleanup(func() { expect.NoError(t, link.Restore()) })
	link.Cut()
	for _, replica := range east().APIServers {
		replica.Kill()
	}
	for _, replica := range east().APIServers {
		expect.NoError(t, replica.Start())
	}
	for _, replica := range east().APIServers {
		expect.NoError(t, replica.AwaitReady(t.Context()))
		again, slices := exported(t, replica, ns)
		if diff := cmp.Diff(services, again); diff != "" {
			t.Errorf("exported services after the restart, want (-), got (+): %s", diff)
		}
		if diff := cmp.Diff(endpoints, slices); diff != "" {
			t.Errorf("exported endpoints after the restart, want (-), got (+): %s", diff)
		}
	}
	expect.NoError(t, link.Restore())
	for _, replica := range east().APIServers {
		awaitWest(t, replica, clustersetv1alpha1.MemberConnected)
		expect.Eventually(t, "west is read again", func(ctx context.Context) error {
			found, err := stateOfWest(ctx, t, replica)
			if err == nil && !found.Status.Synced {
				err = errors.New("not synced")
			}
			return err
		})
	}
	east().AwaitRecorded(t)
	if diff := cmp.Diff(before, expect.Must(imported(t.Context(), ns))(t)); diff != "" {
		t.Errorf("imported EndpointSlices were written: %s", diff)
	}
}

// R168: a member that only one replica reaches is stale in the other one, and lost only
// when no replica reaches it; a replica that is started then knows that.
func TestMemberThatOneReplicaReachesIsNotLost(t *testing.T) {
	ns := clusters.CreateNamespace(t, "half")
	exportMany(t, ns)
	// The controller beside the replica that is cut off shares what that one sees: nothing.
	standby := expect.Must(east().StartStandby(t.Context()))(t)
	reaching, cutOff := east().APIServers[0], east().APIServers[1]
	t.Cleanup(func() {
		expect.NoError(t, standby.Stop(time.Minute))
		restart(context.Background(), t, cutOff)
	})
	restart(t.Context(), t, cutOff, withoutLinks()...)
	awaitWest(t, cutOff, clustersetv1alpha1.MemberStale)
	// It stays stale for longer than its TTL, half of which has passed.
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, ttl, true, func(ctx context.Context) (bool, error) {
		found, err := stateOfWest(ctx, t, cutOff)
		if err == nil && found.Status.State != clustersetv1alpha1.MemberStale {
			err = fmt.Errorf("it is %s: %+v", found.Status.State, found.Status.Conditions)
		}
		return false, err
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	services, endpoints := exported(t, cutOff, ns)
	if len(services) != 2 || len(endpoints) != 3 {
		t.Errorf("the replica that is cut off knows %d services and %d EndpointSlices", len(services), len(endpoints))
	}
	awaitWest(t, reaching, clustersetv1alpha1.MemberConnected)

	link := east().Links["west"]
	t.Cleanup(func() { expect.NoError(t, link.Restore()) })
	link.Cut()
	lost := awaitWest(t, reaching, clustersetv1alpha1.MemberLost)
	if also := awaitWest(t, cutOff, clustersetv1alpha1.MemberLost); also.Status.LastSeen.Sub(lost.Status.LastSeen.Time).Abs() > 15*time.Second {
		t.Errorf("west was last seen %s in one replica, %s in the other", lost.Status.LastSeen, also.Status.LastSeen)
	}
	expect.Eventually(t, "Lease of a lost member", func(ctx context.Context) error {
		lease, err := east().Kubernetes.CoordinationV1().Leases(installation.Namespace).Get(ctx, "member-west", metav1.GetOptions{})
		if err == nil && lease.Annotations["clusterset.mcs-apiserver.io/lost"] != "true" {
			err = fmt.Errorf("annotations are %v", lease.Annotations)
		}
		return err
	})
	restart(t.Context(), t, cutOff, withoutLinks()...)
	if found := expect.Must(stateOfWest(t.Context(), t, cutOff))(t); found.Status.State != clustersetv1alpha1.MemberLost {
		t.Errorf("it is %s in a replica that was started while it was lost", found.Status.State)
	}
	expect.NoError(t, link.Restore())
	awaitWest(t, reaching, clustersetv1alpha1.MemberConnected)
	awaitWest(t, cutOff, clustersetv1alpha1.MemberStale)
}

// R165: of two replicas one records what members export. When it is gone, the other one
// continues, and writes nothing that is already recorded.
func TestOneReplicaRecordsMembers(t *testing.T) {
	ns := clusters.CreateNamespace(t, "recorded")
	exportMany(t, ns)
	expect.Eventually(t, "end of other tests", func(ctx context.Context) error {
		list, err := east().Clientset.ClusterSetV1alpha1().ExportedServices("").List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != 2 {
			err = fmt.Errorf("%d services are exported", len(list.Items))
		}
		return err
	})
	east().AwaitRecorded(t)
	var elected, other *installation.Replica
	for _, replica := range east().APIServers {
		if expect.Must(replica.Metric(t.Context(), "mcs_apiserver_member_records_elected"))(t) == 1 {
			elected = replica
		} else {
			other = replica
		}
	}
	const written = `mcs_apiserver_member_records_writes_total{result="success"}`
	if writes, err := other.Metric(t.Context(), written); err == nil {
		t.Errorf("%v writes of a replica that is not elected", writes)
	}
	t.Cleanup(func() {
		expect.NoError(t, elected.Start())
		expect.NoError(t, elected.AwaitReady(context.Background()))
	})
	elected.Kill()
	<-elected.Exited()
	start := time.Now()
	east().AwaitRecorded(t)
	t.Logf("the other replica was elected after %s", time.Since(start).Round(time.Second))
	if writes, err := other.Metric(t.Context(), written); err == nil {
		t.Errorf("%v writes although nothing changed", writes)
	}
	west().ExportService(t, ns, "new", []string{"10.8.0.9"})
	expect.Eventually(t, "record of another service", func(ctx context.Context) error {
		writes, err := other.Metric(ctx, written)
		if err == nil && writes != 1 {
			err = fmt.Errorf("%v writes, want 1", writes)
		}
		return err
	})
}
