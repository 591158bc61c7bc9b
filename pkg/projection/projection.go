// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package projection computes the virtual resources: it joins what this
// cluster exports with what the members export, merges it, and keeps the
// stores that are served up to date. Every change of anything that they are
// computed from puts one key into one queue.
package projection

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	multiclusterlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
)

const (
	// workers is how many imports are computed at a time. What takes time is
	// writing records of births to etcd, which handles them together.
	workers = 16
	// retryDelay is the first pause before a computation that failed is tried again.
	retryDelay    = 100 * time.Millisecond
	maxRetryDelay = 10 * time.Second
)

// Stores are the virtual resources.
type Stores struct {
	ServiceImports         *virtual.Store
	ExportedServices       *virtual.Store
	ExportedEndpointSlices *virtual.Store
	Members                *virtual.Store
	ClusterProperties      *virtual.Store
}

func (s Stores) all() []*virtual.Store {
	return []*virtual.Store{s.ServiceImports, s.ExportedServices, s.ExportedEndpointSlices, s.Members, s.ClusterProperties}
}

// Config is what a Projection computes from, and into what.
type Config struct {
	// Kubernetes are informers of the cluster's own API.
	Kubernetes informers.SharedInformerFactory
	// Multicluster are informers of what this server itself stores.
	Multicluster mcsinformers.SharedInformerFactory
	Births       *Births
	Stores       Stores
	// UseClusterSetIP is whether the exports of this cluster ask for one IP in all
	// clusters, unless they say otherwise.
	UseClusterSetIP bool
	// ClusterSetIPRanges are where such addresses may be, and ClusterSetIPCIDRs is
	// this cluster's part of them, unless it claims one.
	ClusterSetIPRanges []netip.Prefix
	ClusterSetIPCIDRs  []string
}

// Projection keeps the virtual resources up to date.
type Projection struct {
	config     Config
	members    *member.Registry
	local      export.Local
	claims     multiclusterlisters.ClusterClaimLister
	namespaces corev1listers.NamespaceLister
	// imported are EndpointSlices, indexed by the import they belong to.
	imported cache.Indexer
	synced   []cache.InformerSynced
	queue    workqueue.TypedRateLimitingInterface[key]

	mu sync.Mutex
	// published are the objects that stand for a service in the stores of exports.
	published map[types.NamespacedName]publication
	// byNamespace are the services that are published, by their namespace.
	byNamespace map[string]sets.Set[types.NamespacedName]
	counts      localCounts
	// dead are imports that are no more, and whose records may still be there.
	dead map[types.NamespacedName]types.UID
	// inherited are the records that there were when this server started, until
	// it is known which of them are of imports that died meanwhile.
	inherited map[types.NamespacedName]types.UID
	done      chan struct{}
}

// key says what is to be computed: a service, a member, or the claims.
type key struct {
	what what
	name types.NamespacedName
}

type what int

const (
	aService what = iota
	aMember
	theClaims
)

// publication is what is shown of a service, by name.
type publication struct {
	services, slices sets.Set[string]
	// exports and endpoints are those of this cluster.
	exports, endpoints int32
}

type localCounts struct{ exports, endpoints int32 }

// New prepares a Projection. The configuration of the member registry is
// completed with what it has to tell. Nothing runs yet.
func New(config Config, members member.Config) (*Projection, error) {
	exports := config.Multicluster.MulticlusterX().V1beta1().ServiceExports()
	claims := config.Multicluster.Multicluster().V1().ClusterClaims()
	services := config.Kubernetes.Core().V1().Services()
	namespaces := config.Kubernetes.Core().V1().Namespaces()
	slices := config.Kubernetes.Discovery().V1().EndpointSlices()
	indexers := export.SliceIndexers()
	indexers[importIndex] = indexByImport
	if err := slices.Informer().AddIndexers(indexers); err != nil {
		return nil, err
	}
	p := &Projection{
		config:     config,
		local:      export.Local{Exports: exports.Lister(), Services: services.Lister(), Slices: slices.Informer().GetIndexer()},
		claims:     claims.Lister(),
		namespaces: namespaces.Lister(),
		imported:   slices.Informer().GetIndexer(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[key](retryDelay, maxRetryDelay)),
		published:   map[types.NamespacedName]publication{},
		byNamespace: map[string]sets.Set[types.NamespacedName]{},
		dead:        map[types.NamespacedName]types.UID{},
		done:        make(chan struct{}),
	}
	registerMetrics()
	members.ServiceChanged = p.enqueueService
	members.MemberChanged = func(name string) { p.queue.Add(key{aMember, types.NamespacedName{Name: name}}) }
	p.members = member.New(members)
	for informer, handle := range map[cache.SharedIndexInformer]func(any){
		exports.Informer():    p.nameChanged,
		claims.Informer():     func(any) { p.queue.Add(key{what: theClaims}) },
		services.Informer():   p.serviceChanged,
		namespaces.Informer(): p.namespaceChanged,
		slices.Informer():     p.sliceChanged,
	} {
		registration, err := informer.AddEventHandler(onEveryChange(handle))
		if err != nil {
			return nil, err
		}
		p.synced = append(p.synced, registration.HasSynced)
	}
	return p, nil
}

// Members are the members that the Projection computes from.
func (p *Projection) Members() *member.Registry { return p.members }

// Run computes until the context ends, and returns when everything that it
// started has ended. synced is called once everything has been computed.
func (p *Projection) Run(ctx context.Context, synced func()) {
	defer close(p.done)
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "projection"))
	var running sync.WaitGroup
	defer running.Wait()
	defer p.queue.ShutDown()
	for _, store := range p.config.Stores.all() {
		running.Go(func() { store.Run(ctx) })
	}
	if !cache.WaitForNamedCacheSyncWithContext(ctx, p.synced...) {
		return
	}
	revision, err := p.loadBirths(ctx)
	if err != nil {
		return
	}
	p.inherited = p.config.Births.all()
	if err := p.syncClaims(ctx); err != nil {
		klog.FromContext(ctx).Error(err, "Reading the claims of this cluster failed; trying again")
		p.queue.AddRateLimited(key{what: theClaims})
	}
	running.Go(func() { p.members.Run(ctx) })
	running.Go(func() { p.config.Births.follow(ctx, revision, p.enqueueService) })
	select {
	case <-p.members.Ready():
	case <-ctx.Done():
		return
	}
	if p.computeAll(ctx) != nil {
		return
	}
	for _, store := range p.config.Stores.all() {
		store.MarkSynced()
	}
	synced()
	for range workers {
		running.Go(func() { p.work(ctx) })
	}
	<-ctx.Done()
}

// Done is closed when Run has returned.
func (p *Projection) Done() <-chan struct{} { return p.done }

func (p *Projection) work(ctx context.Context) {
	for {
		item, shutdown := p.queue.Get()
		if shutdown {
			return
		}
		if err := p.sync(ctx, item); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Trying again", "namespace", item.name.Namespace, "service", item.name.Name)
			p.queue.AddRateLimited(item)
		} else {
			p.queue.Forget(item)
		}
		p.queue.Done(item)
	}
}

func (p *Projection) sync(ctx context.Context, item key) error {
	switch item.what {
	case aService:
		return p.syncService(ctx, item.name)
	case aMember:
		p.syncMember(item.name.Name)
		p.buryInherited()
		return nil
	case theClaims:
		return p.syncClaims(ctx)
	}
	return errors.New("unknown key")
}

func (p *Projection) syncMember(name string) {
	if entry := p.members.Entry(name); entry != nil {
		p.config.Stores.Members.Set(entry.DeepCopy())
	} else {
		p.config.Stores.Members.Delete("", name)
	}
}

const importIndex = "import"

// indexByImport finds the EndpointSlices that mcs-controller made for an import.
func indexByImport(object any) ([]string, error) {
	slice, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return nil, fmt.Errorf("%T is no EndpointSlice", object)
	}
	name := slice.Labels[multicluster.ServiceNameLabel]
	if name == "" || slice.Labels[discoveryv1.LabelManagedBy] != multicluster.ManagedBy {
		return nil, nil
	}
	return []string{slice.Namespace + "/" + name}, nil
}
