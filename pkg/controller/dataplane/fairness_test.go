// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	discoveryv1client "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	clustersetlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/precedence"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/preference"
)

// host is a running controller in a synctest bubble.
type host struct {
	client *kubernetesfake.Clientset
	served *mcsfake.Clientset

	mu sync.Mutex
	// writes are the EndpointSlices that were written, by verb and source cluster.
	writes map[string]int
	// times are when EndpointSlices were written, by source cluster.
	times map[string][]time.Time
	// bytes are how large those were, by source cluster.
	bytes map[string]int
}

// run runs a controller in a bubble. Every write of an EndpointSlice takes the given
// time.
func run(t *testing.T, writing time.Duration, test func(t *testing.T, h *host)) {
	t.Helper()
	runWith(t, writing, func(*Controller) {}, test)
}

// runWith is like run with a controller that is changed before.
func runWith(t *testing.T, writing time.Duration, change func(*Controller), test func(t *testing.T, h *host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &host{client: kubernetesfake.NewClientset(), served: mcsfake.NewSimpleClientset(), writes: map[string]int{}, times: map[string][]time.Time{}, bytes: map[string]int{}}
		ctx, stop := context.WithCancel(t.Context())
		hosted, own := informers.NewSharedInformerFactory(h.client, 0), mcsinformers.NewSharedInformerFactory(h.served, 0)
		controller, err := New(slowClient{h.client, h, writing}, h.served, clock.RealClock{}, nil, preference.Auto, hosted, own)
		if err != nil {
			t.Fatal(err)
		}
		change(controller)
		hosted.StartWithContext(ctx)
		own.StartWithContext(ctx)
		ended := make(chan error)
		go func() { ended <- controller.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			hosted.Shutdown()
			own.Shutdown()
		}()
		time.Sleep(time.Second) // whether the caches have synced is checked now and then
		synctest.Wait()
		test(t, h)
	})
}

// slowClient delays and counts writes of EndpointSlices. The fake client itself is
// locked while it handles a request.
type slowClient struct {
	kubernetes.Interface
	host    *host
	writing time.Duration
}

func (c slowClient) DiscoveryV1() discoveryv1client.DiscoveryV1Interface {
	return slowDiscovery{c.Interface.DiscoveryV1(), c}
}

type slowDiscovery struct {
	discoveryv1client.DiscoveryV1Interface
	client slowClient
}

func (c slowDiscovery) EndpointSlices(namespace string) discoveryv1client.EndpointSliceInterface {
	return slowSlices{c.DiscoveryV1Interface.EndpointSlices(namespace), c.client}
}

type slowSlices struct {
	discoveryv1client.EndpointSliceInterface
	client slowClient
}

func (c slowSlices) Create(ctx context.Context, slice *discoveryv1.EndpointSlice, options metav1.CreateOptions) (*discoveryv1.EndpointSlice, error) {
	defer c.client.host.count("create", slice)
	time.Sleep(c.client.writing) // in the bubble
	return c.EndpointSliceInterface.Create(ctx, slice, options)
}

func (c slowSlices) Update(ctx context.Context, slice *discoveryv1.EndpointSlice, options metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error) {
	defer c.client.host.count("update", slice)
	time.Sleep(c.client.writing) // in the bubble
	return c.EndpointSliceInterface.Update(ctx, slice, options)
}

func (h *host) count(verb string, slice *discoveryv1.EndpointSlice) {
	cluster := slice.Labels[multicluster.SourceClusterLabel]
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes[verb+" "+cluster]++
	h.times[cluster] = append(h.times[cluster], time.Now())
	h.bytes[cluster] += slice.Size()
}

func (h *host) wrote(what string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.writes[what]
}

func (h *host) wroteBytes(cluster string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes[cluster]
}

// writtenAfter returns how long after a time an EndpointSlice of a cluster was first
// written, and false if none was.
func (h *host) writtenAfter(since time.Time, cluster string) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, at := range h.times[cluster] {
		if !at.Before(since) {
			return at.Sub(since), true
		}
	}
	return 0, false
}

// named returns what a cluster exports under another name.
func named(name string, export exporter) exporter {
	export.service.Name, export.service.Spec.Service = strings.Replace(export.service.Name, web.Name, name, 1), name
	export.service.Labels[multicluster.ServiceNameLabel] = name // those of the slices too
	for _, slice := range export.slices {
		slice.Name, slice.Spec.Service = strings.Replace(slice.Name, web.Name, name, 1), name
	}
	return export
}

// export serves what a cluster exports, and the import.
func (h *host) export(t *testing.T, export exporter) {
	t.Helper()
	h.serve(t, "serviceimports", newImport(func(s *multiclusterxv1beta1.ServiceImport) { s.Name = export.service.Spec.Service }))
	h.serve(t, "exportedservices", export.service)
	for _, slice := range export.slices {
		h.serve(t, "exportedendpointslices", slice)
	}
}

func (h *host) serve(t *testing.T, resource string, object metav1.Object) {
	t.Helper()
	version := clustersetv1alpha1.SchemeGroupVersion
	if resource == "serviceimports" {
		version = multiclusterxv1beta1.SchemeGroupVersion
	}
	tracker, served := h.served.Tracker(), object.(runtime.Object).DeepCopyObject()
	if tracker.Create(version.WithResource(resource), served, object.GetNamespace()) == nil {
		return
	}
	if err := tracker.Update(version.WithResource(resource), served, object.GetNamespace()); err != nil {
		t.Fatal(err)
	}
}

// imported returns the addresses that are imported from a cluster.
func (h *host) imported(t *testing.T, cluster string) string {
	t.Helper()
	list, err := h.client.Tracker().List(discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), web.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for _, slice := range list.(*discoveryv1.EndpointSliceList).Items {
		for _, endpoint := range slice.Endpoints {
			if slice.Labels[multicluster.SourceClusterLabel] == cluster {
				addresses = append(addresses, endpoint.Addresses...)
			}
		}
	}
	return strings.Join(addresses, ",")
}

// R221: endpoints that change 50 times a second are written once a second after a
// few writes at once, and the last state is written. Changes of another cluster are
// written at once, even of the same service.
func TestFlappingEndpointsAreWrittenOncePerSecond(t *testing.T) {
	run(t, 0, func(t *testing.T, h *host) {
		h.export(t, exportedBy("hostile", ready("10.3.0.1")))
		h.export(t, exportedBy("east", ready("10.1.0.1")))
		synctest.Wait()
		const seconds = 10
		for i := range seconds * 50 {
			h.export(t, exportedBy("hostile", ready(fmt.Sprintf("10.3.%d.1", i%250))))
			if i%100 == 50 {
				start := time.Now()
				h.export(t, exportedBy("east", ready(fmt.Sprintf("10.1.%d.1", i/100+1))))
				synctest.Wait()
				if _, ok := h.writtenAfter(start, "east"); !ok {
					t.Error("change of another cluster was not written at once")
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
		if writes := h.wrote("update hostile"); writes < seconds || writes > writeBurst+seconds+1 {
			t.Errorf("%d writes in %d seconds", writes, seconds)
		}
		h.export(t, exportedBy("hostile", ready("10.3.0.9")))
		time.Sleep(writeInterval)
		synctest.Wait()
		if got := h.imported(t, "hostile"); got != "10.3.0.9" {
			t.Errorf("imported endpoints are %s a second after the last change", got)
		}
	})
}

// R220: however many services one cluster exports, the change of another cluster waits
// for none of its writes.
func TestManyServicesDoNotDelayOtherClusters(t *testing.T) {
	const writing = 10 * time.Millisecond
	run(t, writing, func(t *testing.T, h *host) {
		h.export(t, named("honest", exportedBy("east", ready("10.1.0.1"))))
		time.Sleep(time.Second)
		for i := range 80 {
			h.export(t, named(fmt.Sprintf("flood-%d", i), exportedBy("hostile", ready("10.3.0.1"))))
			synctest.Wait() // the fake watch has a limited buffer
		}
		time.Sleep(5 * writing)
		if done := h.wrote("create hostile"); done > 40 {
			t.Fatalf("%d of 80 slices are written already", done)
		}
		start := time.Now()
		h.export(t, named("honest", exportedBy("east", ready("10.1.0.2"))))
		time.Sleep(2 * writing)
		if took, ok := h.writtenAfter(start, "east"); !ok || took != writing {
			t.Errorf("write of another cluster ended %s after its change, want %s", took, writing)
		}
		time.Sleep(time.Minute)
		if done := h.wrote("create hostile"); done != 80 {
			t.Errorf("%d slices were written, want 80", done)
		}
	})
}

// R220: a member cannot have the derived Services of others attributed to itself by
// claiming that its exports are older.
func TestDerivedServiceIsAttributedToTheExportThatTookEffectFirst(t *testing.T) {
	export := func(cluster string, exported, effective int64) *clustersetv1alpha1.ExportedService {
		return &clustersetv1alpha1.ExportedService{Spec: clustersetv1alpha1.ExportedServiceSpec{
			Cluster: cluster, ExportedAt: metav1.Unix(exported, 0), EffectiveAt: metav1.Unix(effective, 0),
		}}
	}
	honest, backdated := export("west", 100, 100), export("east", 1, 200) // joined at 200
	if precedence.Compare(rank(honest), rank(backdated)) >= 0 {
		t.Error("the backdated export takes precedence")
	}
}

// R220: a hub is one source, however many clusters it relays.
func TestRelayedClustersAreAttributedToTheirHub(t *testing.T) {
	members := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for name, path := range map[string][]string{"east": {"east"}, "hub": {"hub"}, "behind-1": {"behind-1", "hub"}, "behind-2": {"behind-2", "other", "hub"}} {
		entry := &clustersetv1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: clustersetv1alpha1.MemberStatus{ClusterID: name, Path: path}}
		if err := members.Add(entry); err != nil {
			t.Fatal(err)
		}
	}
	c := &Controller{members: clustersetlisters.NewMemberLister(members)}
	for cluster, want := range map[string]string{"east": "east", "hub": "hub", "behind-1": "hub", "behind-2": "hub", "unknown": "unknown"} {
		if got := c.cause(key{cluster: cluster}); got != want {
			t.Errorf("%s is attributed to %q, want %q", cluster, got, want)
		}
	}
}
