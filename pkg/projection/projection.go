// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package projection joins what this cluster and its members export and keeps
// the virtual stores up to date. Every change of an input adds one key to one
// work queue.
package projection

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/keymutex"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/about"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/fairqueue"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	multiclusterlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importedslice"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importidentity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/pace"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
)

const (
	// workers is the number of keys that are processed concurrently. They wait for
	// nothing but each other.
	workers = 4
	// retryDelay is the initial delay before a failed key is retried.
	retryDelay    = 100 * time.Millisecond
	maxRetryDelay = 10 * time.Second
	// The exports of a Service of another cluster that keep changing are computed
	// once per exportInterval. Before that, exportBurst changes are computed at once.
	exportInterval = time.Second
	exportBurst    = 10
)

// Config holds the inputs and outputs of a Projection.
type Config struct {
	// Kubernetes provides informers for the API of the host cluster.
	Kubernetes informers.SharedInformerFactory
	// Multicluster provides informers for the resources that this server stores.
	Multicluster mcsinformers.SharedInformerFactory
	// Lives are the lives of imports. The Projection runs them.
	Lives *importidentity.Lives
	Clock clock.PassiveClock
	// Stores are the stores of all virtual resources. The Projection runs all of
	// them and fills those that it computes, which must be present.
	Stores map[schema.GroupResource]*virtual.Store
	// UseClusterSetIP is whether exports of this cluster request a shared
	// ClusterSet IP unless their annotation says otherwise.
	UseClusterSetIP bool
	// ClusterSetIPRanges are the ClusterSet IP ranges.
	ClusterSetIPRanges []netip.Prefix
	// ClusterSetIPCIDRs are the allocation CIDRs of this cluster. If empty, those
	// of its ClusterClaim are used.
	ClusterSetIPCIDRs []string
}

// stores are the stores that a Projection fills.
type stores struct {
	serviceImports, exportedServices, exportedEndpointSlices, members, clusterProperties *virtual.Store
}

func (c Config) outputs() (stores, error) {
	var outputs stores
	for resource, output := range map[schema.GroupResource]**virtual.Store{
		multicluster.XResource("serviceimports"):      &outputs.serviceImports,
		clusterset.Resource("exportedservices"):       &outputs.exportedServices,
		clusterset.Resource("exportedendpointslices"): &outputs.exportedEndpointSlices,
		clusterset.Resource("members"):                &outputs.members,
		about.Resource("clusterproperties"):           &outputs.clusterProperties,
	} {
		store := c.Stores[resource]
		if store == nil {
			return stores{}, fmt.Errorf("no virtual store for %s", resource)
		}
		*output = store
	}
	return outputs, nil
}

// Projection keeps the virtual resources up to date.
type Projection struct {
	config     Config
	stores     stores
	members    *member.Set
	local      export.Local
	claims     multiclusterlisters.ClusterClaimLister
	namespaces corev1listers.NamespaceLister
	networks   networks
	// imported holds EndpointSlices, indexed by the import that they belong to.
	imported cache.Indexer
	synced   []cache.InformerSynced
	queue    workqueue.TypedRateLimitingInterface[key]
	pace     *pace.Limiter[exports.Ref]
	syncing  keymutex.KeyMutex // by Service
	imports  lifecycles

	mu        sync.Mutex
	published publications
	// unverified are the derived Services that were found at startup and whose
	// imports are not known to be exported, by import.
	unverified map[types.NamespacedName]*corev1.Service
	done       chan struct{}
}

// queueName identifies the queue in metrics.
const queueName = "projection"

func newQueue() workqueue.TypedRateLimitingInterface[key] {
	fair := fairqueue.New(queueName, 0, func(item key) string { return item.source })
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[key]{Name: queueName, Queue: fair})
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[key](retryDelay, maxRetryDelay),
		workqueue.TypedRateLimitingQueueConfig[key]{Name: queueName, DelayingQueue: delaying})
}

// New returns a Projection and completes the configuration of its members with
// the callbacks that they invoke. It starts nothing.
func New(config Config, members member.Config) (*Projection, error) {
	outputs, err := config.outputs()
	if err != nil {
		return nil, err
	}
	serviceExports := config.Multicluster.MulticlusterX().V1beta1().ServiceExports()
	claims := config.Multicluster.Multicluster().V1().ClusterClaims()
	services := config.Kubernetes.Core().V1().Services()
	namespaces := config.Kubernetes.Core().V1().Namespaces()
	slices := config.Kubernetes.Discovery().V1().EndpointSlices()
	indexers := export.SliceIndexers()
	indexers[importIndex] = indexByImport
	if err := slices.Informer().AddIndexers(indexers); err != nil {
		return nil, err
	}
	nodes := config.Kubernetes.Core().V1().Nodes()
	if err := transform(services.Informer(), slices.Informer(), serviceExports.Informer(), nodes.Informer()); err != nil {
		return nil, err
	}
	cidrs := config.Kubernetes.Networking().V1().ServiceCIDRs()
	p := &Projection{
		config:     config,
		stores:     outputs,
		local:      export.Local{Exports: serviceExports.Lister(), Services: services.Lister(), Slices: slices.Informer().GetIndexer()},
		claims:     claims.Lister(),
		namespaces: namespaces.Lister(),
		networks:   networks{nodes: nodes.Lister(), serviceCIDRs: cidrs.Lister()},
		imported:   slices.Informer().GetIndexer(),
		queue:      newQueue(),
		pace:       pace.New[exports.Ref](config.Clock, exportInterval, exportBurst),
		syncing:    keymutex.NewHashed(0),
		imports:    lifecycles{byNamespace: map[string]map[string]*lifecycle{}},
		done:       make(chan struct{}),
	}
	registerMetrics()
	members.Endpoints = p.importedEndpoints
	members.ServiceChanged = p.exportChanged
	members.MemberChanged = func(name string) { p.queue.Add(key{kind: memberKey, name: types.NamespacedName{Name: name}}) }
	members.PropertiesChanged = p.propertiesChanged
	p.members = member.New(members)
	p.published = newPublications(outputs, p.members.ReplaceLocal, p.members.Served)
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		serviceExports.Informer(): onEveryChange(p.nameChanged),
		claims.Informer():         onEveryChange(func(any) { p.queue.Add(key{kind: claimsKey}) }),
		services.Informer():       onEveryChange(p.serviceChanged),
		namespaces.Informer():     onEveryChange(p.namespaceChanged),
		slices.Informer():         p.onSliceChange(),
		nodes.Informer():          onEveryChange(p.networksChanged),
		cidrs.Informer():          onEveryChange(p.networksChanged),
	} {
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return nil, err
		}
		p.synced = append(p.synced, registration.HasSynced)
	}
	current.projection.Store(p)
	return p, nil
}

// Members returns the members whose exports the Projection joins.
func (p *Projection) Members() *member.Set { return p.members }

// Run processes changes until the context ends and returns when everything that
// it started has ended. It calls synced once all stores are complete.
func (p *Projection) Run(ctx context.Context, synced func()) {
	defer close(p.done)
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "projection"))
	var running sync.WaitGroup
	defer running.Wait()
	defer p.queue.ShutDown()
	for _, store := range p.config.Stores {
		running.Go(func() { store.Run(ctx) })
	}
	if !cache.WaitForNamedCacheSyncWithContext(ctx, p.synced...) {
		return
	}
	version, err := p.config.Lives.Load(ctx)
	if err != nil {
		return
	}
	if p.unverified, err = p.derivedServices(metav1.NamespaceAll); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to list derived Services") // unreachable: the cache has synced
	}
	if err := p.process(ctx, key{kind: claimsKey}); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to read the ClusterClaims of this cluster, retrying")
		p.queue.AddRateLimited(key{kind: claimsKey})
	}
	if err := p.process(ctx, key{kind: networksKey}); err != nil {
		klog.FromContext(ctx).Error(err, "Failed to read the networks of this cluster") // unreachable: the caches have synced
		return
	}
	running.Go(func() { p.members.Run(ctx) })
	running.Go(func() {
		p.config.Lives.Run(ctx, version, importidentity.Callbacks{Changed: p.livesChanged, Living: p.living})
	})
	select {
	case <-p.members.Ready():
	case <-ctx.Done():
	}
	if ctx.Err() != nil || p.computeAll(ctx) != nil { // nothing incomplete is served at the end
		return
	}
	p.limitVolume()
	for _, store := range p.config.Stores {
		store.MarkSynced()
	}
	synced()
	p.queue.AddAfter(key{kind: retentionKey}, maxRetention)
	for range workers {
		running.Go(func() { p.work(ctx) })
	}
	<-ctx.Done()
}

// limitVolume limits what is published because of a member from now on. Before the stores can
// be read, nothing waits: what is missing at first would be withdrawn.
func (p *Projection) limitVolume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.published.volume = newVolume(p.config.Clock, p.stores, func(ref exports.Ref, wait time.Duration) {
		p.queue.AddAfter(key{serviceKey, ref.Service, ref.Cluster}, wait)
	})
}

// Done returns a channel that is closed when Run has returned.
func (p *Projection) Done() <-chan struct{} { return p.done }

// importedEndpoints restores the endpoints of a Service of another cluster from the
// EndpointSlices that mcs-controller created for its import.
func (p *Projection) importedEndpoints(cluster string, service types.NamespacedName) []*clusterset.ExportedEndpointSlice {
	objects, err := p.imported.ByIndex(importIndex, service.String())
	if err != nil {
		return nil // unreachable: the index exists
	}
	slices := make([]*discoveryv1.EndpointSlice, 0, len(objects))
	for _, object := range objects {
		slices = append(slices, object.(*discoveryv1.EndpointSlice))
	}
	restored, errs := importedslice.Restore(cluster, slices)
	for _, err := range errs {
		klog.Background().Error(err, "Failed to restore endpoints, they are unknown until the member is read",
			"cluster", cluster, "namespace", service.Namespace, "service", service.Name)
	}
	return restored
}

const importIndex = "import"

// indexByImport indexes the EndpointSlices that mcs-controller created for imports.
func indexByImport(object any) ([]string, error) {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, fmt.Errorf("unexpected type %T, want EndpointSlice", object)
	}
	if !importedslice.IsImported(slice) {
		return nil, nil
	}
	return []string{slice.Namespace + "/" + slice.Labels[multicluster.ServiceNameLabel]}, nil
}
