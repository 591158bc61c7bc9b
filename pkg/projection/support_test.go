// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	coordinationinformers "k8s.io/client-go/informers/coordination/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importidentity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/memory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record/recordtest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
)

// cluster is a Projection and its inputs. Tests that do not run it process
// Services explicitly.
type cluster struct {
	*Projection
	t            *testing.T
	objects      []runtime.Object
	kubernetes   *fake.Clientset
	multicluster *mcsfake.Clientset
	// secrets and leases are those of members, and renewed their renewed credentials.
	secrets, renewed, leases cache.SharedIndexInformer
	// records are the records of lives, and remembered those of members.
	records, remembered *recordtest.Store
	clock               *testingclock.FakePassiveClock
}

// newCluster returns cluster a of ClusterSet set, with namespace ns.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	return newReplica(t, recordtest.New())
}

// newReplica returns another server of a cluster with these records.
func newReplica(t *testing.T, records *recordtest.Store) *cluster {
	t.Helper()
	return newServer(t, records, recordtest.New())
}

// newServer returns a server of a cluster with these records of lives and members.
func newServer(t *testing.T, records, remembered *recordtest.Store) *cluster {
	t.Helper()
	c := &cluster{
		t: t, kubernetes: fake.NewClientset(), multicluster: mcsfake.NewSimpleClientset(),
		records: records, remembered: remembered, clock: testingclock.NewFakePassiveClock(epoch.Add(time.Hour)),
	}
	c.secrets = coreinformers.NewSecretInformer(c.kubernetes, "mcs-system", 0, cache.Indexers{})
	c.renewed = coreinformers.NewSecretInformer(c.kubernetes, "mcs-system", 0, cache.Indexers{})
	c.leases = coordinationinformers.NewLeaseInformer(c.kubernetes, "mcs-system", 0, cache.Indexers{})
	versions := virtual.NewVersionSource(clock.RealClock{})
	stores := map[schema.GroupResource]*virtual.Store{}
	for resource, object := range map[schema.GroupResource]struct {
		object, list runtime.Object
		namespaced   bool
	}{
		multicluster.XResource("serviceimports"):      {&multicluster.ServiceImport{}, &multicluster.ServiceImportList{}, true},
		clusterset.Resource("exportedservices"):       {&clusterset.ExportedService{}, &clusterset.ExportedServiceList{}, true},
		clusterset.Resource("exportedendpointslices"): {&clusterset.ExportedEndpointSlice{}, &clusterset.ExportedEndpointSliceList{}, true},
		clusterset.Resource("members"):                {&clusterset.Member{}, &clusterset.MemberList{}, false},
		about.Resource("clusterproperties"):           {&about.ClusterProperty{}, &about.ClusterPropertyList{}, false},
	} {
		stores[resource] = virtual.NewStore(virtual.Config{
			Resource: resource, Namespaced: object.namespaced, Versions: versions,
			NewFunc: object.object.DeepCopyObject, NewListFunc: object.list.DeepCopyObject,
		})
	}
	var err error
	host := informers.NewSharedInformerFactory(c.kubernetes, 0)
	c.Projection, err = New(Config{
		Kubernetes:   host,
		Multicluster: mcsinformers.NewSharedInformerFactory(c.multicluster, 0),
		Lives: importidentity.New(importidentity.Config{
			Store: records, Clock: c.clock, Namespaces: host.Core().V1().Namespaces().Lister(), GetNamespace: c.kubernetes.CoreV1().Namespaces().Get,
		}),
		Clock:  c.clock,
		Stores: stores,
	}, member.Config{
		Secrets: c.secrets, Renewed: c.renewed, Leases: c.leases, Memory: remembered, Election: memory.Unopposed, Clock: clock.RealClock{}, TTL: liveness.DefaultTTL,
	})
	must(t, err)
	t.Cleanup(c.queue.ShutDown)
	c.add(namespace("kube-system"), namespace("ns"), claim("id.k8s.io", "a"), claim("clusterset.k8s.io", "set"))
	must(t, c.syncClaims(t.Context()))
	return c
}

// indexer returns the cache that an object belongs to.
func (c *cluster) indexer(object runtime.Object) cache.Indexer {
	kubernetes, multicluster := c.config.Kubernetes, c.config.Multicluster
	switch object.(type) {
	case *corev1.Namespace:
		return kubernetes.Core().V1().Namespaces().Informer().GetIndexer()
	case *corev1.Secret:
		return c.secrets.GetIndexer()
	case *coordinationv1.Lease:
		return c.leases.GetIndexer()
	case *corev1.Node:
		return kubernetes.Core().V1().Nodes().Informer().GetIndexer()
	case *networkingv1.ServiceCIDR:
		return kubernetes.Networking().V1().ServiceCIDRs().Informer().GetIndexer()
	case *corev1.Service:
		return kubernetes.Core().V1().Services().Informer().GetIndexer()
	case *discoveryv1.EndpointSlice:
		return kubernetes.Discovery().V1().EndpointSlices().Informer().GetIndexer()
	case *multiclusterxv1beta1.ServiceExport:
		return multicluster.MulticlusterX().V1beta1().ServiceExports().Informer().GetIndexer()
	case *multiclusterv1.ClusterClaim:
		return multicluster.Multicluster().V1().ClusterClaims().Informer().GetIndexer()
	}
	c.t.Fatalf("no cache holds objects of type %T", object)
	return nil
}

// add adds or replaces objects in the caches.
func (c *cluster) add(objects ...runtime.Object) {
	c.t.Helper()
	for _, object := range objects {
		must(c.t, c.indexer(object).Update(object))
		c.objects = append(c.objects, object)
	}
}

func (c *cluster) remove(object runtime.Object) {
	c.t.Helper()
	must(c.t, c.indexer(object).Delete(object))
}

// queued drains the queue and returns the Services in it.
func (c *cluster) queued() string {
	var services []string
	for c.queue.Len() > 0 {
		item, _ := c.queue.Get()
		c.queue.Done(item)
		if item.kind == serviceKey {
			services = append(services, item.name.String())
		}
	}
	slices.Sort(services)
	return strings.Join(services, ",")
}

// inform serves the objects from the fake API and starts the informers.
func (c *cluster) inform(ctx context.Context) {
	c.t.Helper()
	for _, object := range c.objects {
		switch object.(type) {
		case *multiclusterxv1beta1.ServiceExport, *multiclusterv1.ClusterClaim:
			must(c.t, c.multicluster.Tracker().Add(object))
		default:
			must(c.t, c.kubernetes.Tracker().Add(object))
		}
	}
	c.config.Kubernetes.Start(ctx.Done())
	c.config.Multicluster.Start(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { c.secrets.RunWithContext(ctx) })
	running.Go(func() { c.renewed.RunWithContext(ctx) })
	running.Go(func() { c.leases.RunWithContext(ctx) })
	c.t.Cleanup(func() {
		running.Wait()
		c.config.Kubernetes.Shutdown()
		c.config.Multicluster.Shutdown()
	})
}

// run runs the Projection and returns a function that stops it.
func run(c *cluster) (stop func()) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(c.t.Context())
	c.inform(ctx)
	synced := make(chan struct{})
	go c.Run(ctx, func() { close(synced) })
	<-synced
	return func() {
		cancel()
		<-c.Done()
	}
}

// ran runs the Projection until it has synced.
func ran(c *cluster) {
	c.t.Helper()
	run(c)()
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(epoch)}}
}

func service(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"}, IPFamilies: []corev1.IPFamily{ipv4},
			Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
}

func exportFor(name string) *multiclusterxv1beta1.ServiceExport {
	return &multiclusterxv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(epoch)}}
}

func slice(name, service string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}}, {Addresses: []string{"10.1.0.2"}}},
	}
}
