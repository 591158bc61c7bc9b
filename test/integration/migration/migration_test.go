// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migration tests that all objects of a cluster are moved between storages
// while another cluster imports its services.
package migration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	multiclusterxv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/configmap"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

const (
	ns               = "shop"
	storageNamespace = "mcs-storage"

	// exports is how many ServiceExports are moved; the first of them have Services.
	exports, services = 100, 20

	cluster, etcd, embedded = "cluster", "etcd", "embedded"
)

var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{
		Names: []string{"east", "west"}, ClusterSet: "everywhere",
		Configure: func(id string, plane *controlplane.Config, installed *installation.Config) {
			if id == "east" {
				installed.Replicas = 2
				installed.StorageFlags = []string{"--storage=etcd", "--etcd-servers=http://" + net.JoinHostPort(plane.Address, "2379")}
			}
		},
	})
}

func east() *fleet.Cluster { return clusters.Cluster("east") }
func west() *fleet.Cluster { return clusters.Cluster("west") }

// flags returns the flags that describe a storage.
func flags(storage string) []string {
	switch storage {
	case cluster:
		return []string{"--storage-namespace=" + storageNamespace}
	case etcd:
		return []string{"--etcd-servers=" + east().Plane.EtcdURL()}
	}
	return []string{"--data-dir=" + east().DataDir()}
}

// start starts replicas with a storage, to which objects are moved from another one
// unless that is empty.
func start(t *testing.T, storage, from string, replicas ...*installation.Replica) {
	t.Helper()
	east().StorageFlags = append([]string{"--storage=" + storage}, flags(storage)...)
	if from != "" {
		east().StorageFlags = append(append(east().StorageFlags, "--migrate-from="+from), flags(from)...)
	}
	expect.NoError(t, east().Publish(t.Context(), replicas...))
	for _, replica := range replicas {
		expect.NoError(t, replica.Start())
	}
}

func awaitReady(t *testing.T, replicas ...*installation.Replica) {
	t.Helper()
	for _, replica := range replicas {
		expect.NoError(t, replica.AwaitReady(t.Context()))
	}
}

func stop(t *testing.T) {
	t.Helper()
	for _, replica := range east().APIServers {
		if replica.Running() {
			expect.NoError(t, replica.Stop(time.Minute))
		}
	}
}

// expectRefused starts a replica with a storage and waits until it says why it does
// not use it.
func expectRefused(t *testing.T, storage, reason string) {
	t.Helper()
	stop(t)
	replica := east().APIServers[0]
	start(t, storage, "", replica)
	expect.Eventually(t, "refusal", func(ctx context.Context) error {
		status, text, err := replica.Health(ctx, "/readyz/storage")
		if err == nil && (status == 200 || !strings.Contains(text, reason)) {
			err = fmt.Errorf("readiness is %d: %s, want %q", status, text, reason)
		}
		return err
	})
	stop(t)
}

// state is what must not change.
type state struct {
	exports map[string]multiclusterxv1beta1.ServiceExport
	claims  map[string]multiclusterv1.ClusterClaim
	imports map[string]string
	// inventory has ClusterProfiles and PlacementDecisions.
	inventory map[string]any
}

func read(t *testing.T) *state {
	t.Helper()
	s := &state{}
	expect.Eventually(t, "state of east", func(ctx context.Context) error {
		*s = state{exports: map[string]multiclusterxv1beta1.ServiceExport{}, claims: map[string]multiclusterv1.ClusterClaim{}, imports: map[string]string{}, inventory: map[string]any{}}
		list, err := east().Clientset.MulticlusterXV1beta1().ServiceExports(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, item := range list.Items {
			item.ResourceVersion = ""
			s.exports[item.Name] = item
		}
		claims, err := east().Clientset.MulticlusterV1().ClusterClaims().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, item := range claims.Items {
			item.ResourceVersion = ""
			s.claims[item.Name] = item
		}
		profiles, err := east().Clientset.MulticlusterXV1alpha1().ClusterProfiles(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, item := range profiles.Items {
			item.ResourceVersion = ""
			s.inventory["ClusterProfile "+item.Name] = item
		}
		decisions, err := east().Clientset.MulticlusterXV1alpha1().PlacementDecisions(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, item := range decisions.Items {
			item.ResourceVersion = ""
			s.inventory["PlacementDecision "+item.Name] = item
		}
		imports, err := west().Clientset.MulticlusterXV1beta1().ServiceImports(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, item := range imports.Items {
			s.imports[item.Name] = fmt.Sprintf("%s from %v", item.UID, fleet.Exporters(&item))
		}
		if len(s.exports) == 0 || len(s.claims) < 2 || len(s.imports) == 0 {
			return fmt.Errorf("%d exports, %d claims and %d imports", len(s.exports), len(s.claims), len(s.imports))
		}
		return nil
	})
	return s
}

func (s *state) expectSame(t *testing.T, after string) {
	t.Helper()
	now := read(t)
	for name, before := range s.exports {
		got := now.exports[name]
		if got.UID != before.UID || !got.CreationTimestamp.Equal(&before.CreationTimestamp) || got.Generation != before.Generation ||
			!apiequality.Semantic.DeepEqual(got.ManagedFields, before.ManagedFields) || !apiequality.Semantic.DeepEqual(got.Spec, before.Spec) ||
			!apiequality.Semantic.DeepEqual(got.Annotations, before.Annotations) || !apiequality.Semantic.DeepEqual(got.Status, before.Status) {
			t.Fatalf("%s: ServiceExport %s is\n%+v, was\n%+v", after, name, got, before)
		}
	}
	if !apiequality.Semantic.DeepEqual(now.inventory, s.inventory) {
		t.Errorf("%s: inventory is\n%+v, was\n%+v", after, now.inventory, s.inventory)
	}
	if len(now.exports) != len(s.exports) || !apiequality.Semantic.DeepEqual(now.claims, s.claims) || !apiequality.Semantic.DeepEqual(now.imports, s.imports) {
		t.Errorf("%s: %d ServiceExports, claims %+v, imports %v; want %d, %+v, %v", after, len(now.exports), now.claims, now.imports, len(s.exports), s.claims, s.imports)
	}
}

// exportAll creates ServiceExports, and Services for some of them.
func exportAll(t *testing.T) {
	t.Helper()
	clusters.CreateNamespace(t, ns)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for i := range exports {
		group.Go(func() error {
			name := fmt.Sprintf("service-%03d", i)
			if i < services {
				if _, err := east().Service(ctx, ns, name); err != nil {
					return err
				}
				if _, err := east().EndpointSlice(ctx, ns, name, []string{fmt.Sprintf("10.9.0.%d", i+1)}); err != nil {
					return err
				}
			}
			_, err := east().Export(ctx, ns, name)
			return err
		})
	}
	expect.NoError(t, group.Wait())
	for i := range services {
		west().AwaitImport(t, ns, fmt.Sprintf("service-%03d", i), "east")
	}
	awaitConditions(t, services)
}

// awaitConditions waits until nothing more is written to exports: all have conditions, and as many
// as have a Service are ready, with a decision about their IP.
func awaitConditions(t *testing.T, services int) {
	t.Helper()
	expect.Eventually(t, "conditions of all exports", func(ctx context.Context) error {
		list, err := east().Clientset.MulticlusterXV1beta1().ServiceExports(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		decided := 0
		for _, item := range list.Items {
			if len(item.Status.Conditions) == 0 {
				return errors.New(item.Name + " has no conditions")
			}
			if meta.IsStatusConditionTrue(item.Status.Conditions, multicluster.ServiceExportReady) && item.Annotations[multicluster.ClusterSetIPDecisionAnnotation] != "" {
				decided++
			}
		}
		if decided != services {
			return fmt.Errorf("%d exports are ready and decided, want %d", decided, services)
		}
		return nil
	})
}

// createInventory creates a ClusterProfile with a status, and a PlacementDecision.
func createInventory(t *testing.T) {
	t.Helper()
	inventory := east().Clientset.MulticlusterXV1alpha1()
	profile := expect.Must(inventory.ClusterProfiles(ns).Create(t.Context(), &multiclusterxv1alpha1.ClusterProfile{
		ObjectMeta: metav1.ObjectMeta{Name: "east"},
		Spec:       multiclusterxv1alpha1.ClusterProfileSpec{ClusterManager: multiclusterxv1alpha1.ClusterManager{Name: "example"}},
	}, metav1.CreateOptions{}))(t)
	profile.Status.AccessProviders = []multiclusterxv1alpha1.AccessProvider{{Name: "example", Cluster: multiclusterxv1alpha1.Cluster{
		Server: "https://east.example.com", Extensions: []multiclusterxv1alpha1.NamedExtension{{Name: "e", Extension: runtime.RawExtension{Raw: []byte(`{"a":1}`)}}},
	}}}
	expect.Must(inventory.ClusterProfiles(ns).UpdateStatus(t.Context(), profile, metav1.UpdateOptions{}))(t)
	expect.Must(inventory.PlacementDecisions(ns).Create(t.Context(), &multiclusterxv1alpha1.PlacementDecision{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Decisions:  []multiclusterxv1alpha1.ClusterDecision{{ClusterProfileRef: multiclusterxv1alpha1.ClusterProfileReference{Name: "east"}}},
	}, metav1.CreateOptions{}))(t)
}

// countWithdrawals counts imports, derived Services and imported EndpointSlices that are
// deleted in clusters, or that lose a cluster or an endpoint.
func countWithdrawals(t *testing.T, in ...*fleet.Cluster) *atomic.Int64 {
	t.Helper()
	count := &atomic.Int64{}
	for _, cluster := range in {
		imports := externalversions.NewSharedInformerFactoryWithOptions(cluster.Clientset, 0, externalversions.WithNamespace(ns))
		objects := informers.NewSharedInformerFactoryWithOptions(cluster.Kubernetes, 0, informers.WithNamespace(ns), informers.WithTweakListOptions(func(options *metav1.ListOptions) {
			options.LabelSelector = multicluster.ServiceNameLabel
		}))
		for _, informer := range []cache.SharedIndexInformer{
			imports.MulticlusterX().V1beta1().ServiceImports().Informer(), objects.Core().V1().Services().Informer(), objects.Discovery().V1().EndpointSlices().Informer(),
		} {
			expect.Must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { count.Add(1) }, UpdateFunc: func(old, object any) {
				if size(object) < size(old) {
					count.Add(1)
				}
			}}))(t)
		}
		// The context of the test ends before its cleanup.
		imports.StartWithContext(t.Context())
		objects.StartWithContext(t.Context())
		t.Cleanup(imports.Shutdown)
		t.Cleanup(objects.Shutdown)
		imports.WaitForCacheSync(t.Context().Done())
		objects.WaitForCacheSync(t.Context().Done())
	}
	return count
}

// size returns how many endpoints or clusters an object has.
func size(object any) int {
	switch object := object.(type) {
	case *discoveryv1.EndpointSlice:
		return len(object.Endpoints)
	case *multiclusterxv1beta1.ServiceImport:
		return len(object.Status.Clusters)
	}
	return 0
}

// R175 to R178, R450
func TestObjectsAreMovedBetweenStorages(t *testing.T) {
	exportAll(t)
	createInventory(t)
	before := read(t)
	if len(before.inventory) != 2 {
		t.Fatalf("inventory is %+v", before.inventory)
	}
	withdrawals := countWithdrawals(t, east(), west())
	first, second := east().APIServers[0], east().APIServers[1]
	moved := func(what string, begun time.Time) {
		t.Helper()
		t.Logf("%s took %s", what, time.Since(begun).Round(time.Millisecond))
		before.expectSame(t, what)
		if count := withdrawals.Load(); count != 0 {
			t.Fatalf("%s: %d imports, Services or EndpointSlices were withdrawn", what, count)
		}
	}

	stop(t)
	resembleEarlierVersion(t)
	begun := time.Now()
	start(t, embedded, etcd, first)
	awaitReady(t, first)
	moved("moving from etcd to embedded", begun)
	expectRefused(t, etcd, "its objects were moved to the embedded etcd in "+east().DataDir())

	begun = time.Now()
	start(t, cluster, embedded, first)
	killInTheMiddle(t, first)
	// Without the flag, what was moved so far is not served.
	expectRefused(t, cluster, "moving objects from the embedded etcd in "+east().DataDir()+" was interrupted")
	start(t, cluster, embedded, first)
	awaitReady(t, first)
	moved("moving from embedded to cluster, interrupted", begun)
	expectRefused(t, embedded, "its objects were moved to the ConfigMaps in namespace "+storageNamespace)

	// Both replicas move at the same time, back into storage that is outdated.
	begun = time.Now()
	start(t, etcd, cluster, first, second)
	awaitReady(t, first, second)
	moved("moving from cluster to etcd with two replicas", begun)

	// The flag may be left, also when the other storage does not exist anymore.
	stop(t)
	east().StorageFlags = append([]string{"--storage=etcd", "--migrate-from=embedded", "--data-dir=/nonexistent"}, flags(etcd)...)
	expect.NoError(t, east().StartAPIServers())
	awaitReady(t, first, second)
	before.expectSame(t, "restarting with the flag")

	name := fmt.Sprintf("service-%03d", services-1)
	expect.NoError(t, east().Clientset.MulticlusterXV1beta1().ServiceExports(ns).Delete(t.Context(), name, metav1.DeleteOptions{}))
	west().AwaitNoImport(t, ns, name)
	awaitWithdrawals(t, withdrawals)
}

// awaitWithdrawals waits until the withdrawal of one export was counted in two clusters. If it
// is not, nothing else would have been.
func awaitWithdrawals(t *testing.T, withdrawals *atomic.Int64) {
	t.Helper()
	expect.Eventually(t, "counted withdrawals", func(context.Context) error {
		if count := withdrawals.Load(); count < 6 {
			return fmt.Errorf("%d withdrawals, want those of an import, a Service and an EndpointSlice in two clusters", count)
		}
		return nil
	})
}

// resembleEarlierVersion makes the etcd look as if it was written by a version that had
// other records and no storage marker.
func resembleEarlierVersion(t *testing.T) {
	t.Helper()
	const prefix = "/registry/mcs-apiserver/"
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{east().Plane.EtcdURL()}, DialTimeout: expect.Patience})
	expect.NoError(t, err)
	defer client.Close()
	deleted, err := client.Delete(t.Context(), prefix+"storage.mcs-apiserver.io/", clientv3.WithPrefix())
	expect.NoError(t, err)
	if deleted.Deleted == 0 {
		t.Error("etcd had neither a storage marker nor records")
	}
	_, err = client.Put(t.Context(), prefix+"virtual/births/"+ns+"/service-000", `{"uid": "5f3c"}`)
	expect.NoError(t, err)
	expect.NoError(t, east().Kubernetes.CoreV1().ConfigMaps(installation.Namespace).Delete(t.Context(), marker.Name, metav1.DeleteOptions{}))
}

// killInTheMiddle kills a replica that moves objects to the cluster when some of them
// were moved.
func killInTheMiddle(t *testing.T, replica *installation.Replica) {
	t.Helper()
	moved := func(ctx context.Context) (int, error) {
		list, err := east().Kubernetes.CoreV1().ConfigMaps(storageNamespace).List(ctx, metav1.ListOptions{LabelSelector: configmap.ResourceLabel})
		if err != nil {
			return 0, err
		}
		return len(list.Items), nil
	}
	events, err := east().Kubernetes.CoreV1().ConfigMaps(storageNamespace).Watch(t.Context(), metav1.ListOptions{LabelSelector: configmap.ResourceLabel})
	expect.NoError(t, err)
	defer events.Stop()
	for event := range events.ResultChan() {
		if _, ok := event.Object.(*corev1.ConfigMap); ok {
			break
		}
	}
	replica.Kill()
	<-replica.Exited()
	count, err := moved(t.Context())
	expect.NoError(t, err)
	t.Logf("killed when %d objects were moved", count)
	if count == 0 || count >= exports {
		t.Fatalf("%d objects were moved", count)
	}
}
