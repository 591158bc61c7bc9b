// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpointprobe asks the endpoints of silent members whether they are alive: the
// silence of an API does not prove that Pods are dead. Nothing is sent over the
// connections. Only addresses that the Secret of the member allows are asked, and nobody in
// other clusters learns the outcome, so that no member can scan ports through this cluster.
package endpointprobe

import (
	"cmp"
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coordinationv1listers "k8s.io/client-go/listers/coordination/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/sourceindex"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	clustersetlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/clusterset/v1alpha1"
	multiclusterxlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// period is the time between two looks at the states of members.
const period = 2 * time.Second

// Config is what a Prober needs.
type Config struct {
	// Leases are where findings are recorded, in Namespace.
	Leases    coordinationv1client.LeasesGetter
	Namespace string
	Clock     clock.WithTicker
	// Dial opens a connection, and Host asks the Kubernetes API of this cluster for
	// anything.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Host func(ctx context.Context) error
	// Installed are caches of the namespace of the installation, Members of the member
	// Secrets in it, and Own of the mcs-apiserver in the same Pod.
	Installed, Members informers.SharedInformerFactory
	Own                mcsinformers.SharedInformerFactory
}

// Prober asks endpoints.
type Prober struct {
	leases      coordinationv1client.LeasesGetter
	namespace   string
	clock       clock.WithTicker
	host        func(context.Context) error
	members     clustersetlisters.MemberLister
	imports     multiclusterxlisters.ServiceImportLister
	leaseLister coordinationv1listers.LeaseLister
	secrets     corev1listers.SecretLister
	// exported and slices are indexed by import and by source cluster.
	exported, slices cache.Indexer
	synced           []cache.InformerSynced
	// asker asks endpoints of other clusters, and ownAsker those of this one.
	asker, ownAsker *asker
	vantage         vantage
	running         sync.WaitGroup

	mu sync.Mutex
	// changed is called with a Service for which something else was found.
	changed func(cluster string, service types.NamespacedName)
	// looks are those at members, by their names. A look is replaced when the member is
	// seen again.
	looks map[string]*look
	// asking are the passes at present.
	asking sets.Set[pass]
	// sources are the members from which clusters are known, by the UIDs of their Secrets.
	sources map[types.UID]source
	own     experience
	// measured are the clusters that metrics tell of.
	measured sets.Set[string]
	// othersAnswered is when an endpoint of a member that responds last answered.
	othersAnswered time.Time
}

// New returns a Prober. It asks nothing before it runs.
func New(config Config) (*Prober, error) {
	registerMetrics()
	exported := config.Own.ClusterSet().V1alpha1().ExportedServices().Informer()
	endpoints := config.Own.ClusterSet().V1alpha1().ExportedEndpointSlices().Informer()
	members := config.Own.ClusterSet().V1alpha1().Members()
	imports := config.Own.MulticlusterX().V1beta1().ServiceImports()
	leases := config.Installed.Coordination().V1().Leases()
	secrets := config.Members.Core().V1().Secrets()
	p := &Prober{
		leases: config.Leases, namespace: config.Namespace, clock: config.Clock, host: config.Host,
		members: members.Lister(), imports: imports.Lister(), leaseLister: leases.Lister(), secrets: secrets.Lister(), exported: exported.GetIndexer(), slices: endpoints.GetIndexer(),
		synced: []cache.InformerSynced{exported.HasSynced, endpoints.HasSynced, members.Informer().HasSynced, imports.Informer().HasSynced, leases.Informer().HasSynced, secrets.Informer().HasSynced},
		asker:  newAsker(config.Dial, config.Clock), ownAsker: newAsker(config.Dial, config.Clock), changed: func(string, types.NamespacedName) {},
		looks: map[string]*look{}, vantage: vantage{checking: make(chan struct{}, 1)}, asking: sets.New[pass](), sources: map[types.UID]source{}, measured: sets.New[string](),
	}
	for _, informer := range []cache.SharedIndexInformer{exported, endpoints} {
		if err := loop.EnsureIndexers(informer, sourceindex.Indexers()); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// OnChange sets what is called with a Service for which something else was found. It MUST
// NOT BLOCK.
func (p *Prober) OnChange(changed func(cluster string, service types.NamespacedName)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed = changed
}

// Finding returns what was found about a Service of a silent member in its present silence.
func (p *Prober) Finding(cluster string, service types.NamespacedName) liveness.Finding {
	entry, err := p.members.Get(cluster)
	p.mu.Lock()
	defer p.mu.Unlock()
	if look := p.looks[cluster]; err == nil && look != nil && look.isAt(entry) {
		return look.finding(service)
	}
	return liveness.Pending
}

// Run asks endpoints until the context is canceled. Only the leader runs it.
func (p *Prober) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "endpointprobe"))
	if !cache.WaitForNamedCacheSyncWithContext(ctx, p.synced...) {
		return nil
	}
	defer looksDone.Reset() // members may leave while another replica leads
	defer p.running.Wait()
	p.running.Go(func() { p.repeat(ctx, p.publishAll) }) // writes may take long, and so may connections
	p.running.Go(func() { p.repeat(ctx, p.sampleOwn) })
	p.repeat(ctx, p.observeAll)
	return nil
}

// repeat does something with all members again and again.
func (p *Prober) repeat(ctx context.Context, do func(context.Context, []*clustersetv1alpha1.Member)) {
	ticker := p.clock.NewTicker(period)
	defer ticker.Stop()
	for {
		do(ctx, p.others())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// observeAll begins to ask what is due, and forgets members that are gone.
func (p *Prober) observeAll(ctx context.Context, members []*clustersetv1alpha1.Member) {
	names := sets.New[string]()
	for _, entry := range members {
		names.Insert(entry.Name)
		p.observe(ctx, entry)
	}
	secrets := p.secretUIDs()
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.sources, func(uid types.UID, _ source) bool { return !secrets.Has(uid) })
	maps.DeleteFunc(p.looks, func(name string, _ *look) bool { return !names.Has(name) })
	p.forgetMetricsLocked()
}

// observe begins another look if the state of a member requires that, and asks what is due.
func (p *Prober) observe(ctx context.Context, entry *clustersetv1alpha1.Member) {
	from := p.sourceOf(entry)
	now := p.clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	current := p.lookLocked(entry, now)
	current.ttl = ttlOf(entry)
	p.decideLocked(entry.Name, current, from.known && len(from.cidrs) == 0, entry.Status.Overdue)
	if len(from.cidrs) == 0 {
		return
	}
	switch {
	case current.silent && !current.overdue:
		for _, which := range []pass{{cluster: entry.Name, hasAnswered: true}, {cluster: entry.Name}} {
			p.beginLocked(which, func() { p.askAll(ctx, which, current, from) })
		}
	case entry.Status.State == clustersetv1alpha1.MemberConnected && now.Sub(current.sampled) >= sampleInterval:
		if p.beginLocked(pass{cluster: entry.Name, sample: true}, func() { p.sample(ctx, entry.Name, current, from) }) {
			current.sampled = now
		}
	}
}

// lookLocked returns the look at a member, which is another one if the member was seen
// again, or is another cluster.
func (p *Prober) lookLocked(entry *clustersetv1alpha1.Member, now time.Time) *look {
	last := p.looks[entry.Name]
	since := last.shownAt(entry, now)
	silent := isSilent(entry, now.Sub(since))
	if last != nil && last.silent == silent && last.isAt(entry) {
		last.shown, last.shownSince = lastSeen(entry), since
		return last
	}
	next := last.next(entry, silent, now)
	next.shown, next.shownSince = lastSeen(entry), since
	next.learn(p.recorded(entry), now)
	p.looks[entry.Name] = next
	return next
}

// decideLocked sets whether the TTL alone decides about the endpoints of a member.
func (p *Prober) decideLocked(cluster string, look *look, forbidden, overdue bool) {
	before := look.forbidden || look.overdue
	look.forbidden, look.overdue = forbidden, overdue
	if look.silent && before != (forbidden || overdue) {
		for _, service := range p.services(cluster) {
			p.changed(cluster, service)
		}
	}
}

// others returns all members but this cluster.
func (p *Prober) others() []*clustersetv1alpha1.Member {
	members, err := p.members.List(labels.Everything())
	if err != nil {
		return nil // unreachable: it is a cache
	}
	return slices.DeleteFunc(members, func(entry *clustersetv1alpha1.Member) bool {
		return entry.Status.State == clustersetv1alpha1.MemberLocal
	})
}

// services returns the Services that a cluster exports, sorted.
func (p *Prober) services(cluster string) []types.NamespacedName {
	objects, err := p.exported.ByIndex(sourceindex.ByCluster, cluster)
	if err != nil {
		return nil // unreachable: the index exists
	}
	services := make([]types.NamespacedName, 0, len(objects))
	for _, object := range objects {
		exported := object.(*clustersetv1alpha1.ExportedService)
		services = append(services, types.NamespacedName{Namespace: exported.Namespace, Name: exported.Spec.Service})
	}
	slices.SortFunc(services, func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	return services
}

// targets returns endpoints of a Service of a cluster that are asked next, and how many turns
// it takes to ask all. Those of an IP family with which the Service is not imported do not
// matter: this cluster may have no route to them.
func (p *Prober) targets(cluster string, service types.NamespacedName, allowed []netip.Prefix, last pace) (chosen [][]netip.AddrPort, turns int) {
	if imported, err := p.imports.ServiceImports(service.Namespace).Get(service.Name); err == nil {
		allowed = ofFamilies(allowed, imported.Spec.IPFamilies)
	}
	return targets(p.slicesOf(cluster, service), allowed, last.answered, last.turn)
}

// slicesOf returns the endpoints that a cluster exports for a Service.
func (p *Prober) slicesOf(cluster string, service types.NamespacedName) []*clustersetv1alpha1.ExportedEndpointSlice {
	objects, err := p.slices.ByIndex(sourceindex.ByImport, service.String())
	if err != nil {
		return nil // unreachable: the index exists
	}
	var found []*clustersetv1alpha1.ExportedEndpointSlice
	for _, object := range objects {
		if slice := object.(*clustersetv1alpha1.ExportedEndpointSlice); slice.Spec.Cluster == cluster {
			found = append(found, slice)
		}
	}
	return found
}

// self returns the ID of this cluster, empty if it has none.
func (p *Prober) self() string {
	members, err := p.members.List(labels.Everything())
	if err != nil {
		return "" // unreachable: it is a cache
	}
	for _, entry := range members {
		if entry.Status.State == clustersetv1alpha1.MemberLocal {
			return entry.Name
		}
	}
	return ""
}
