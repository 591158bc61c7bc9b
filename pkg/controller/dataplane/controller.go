// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dataplane materializes every ServiceImport as objects that stock
// kube-proxy and stock CoreDNS understand: a derived Service, and imported
// EndpointSlices with the endpoints of all clusters that export the service.
package dataplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/sourceindex"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	clustersetlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/clusterset/v1alpha1"
	multiclusterxlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/pace"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/preference"
)

const (
	// workers is how many keys are reconciled concurrently, and workersPerCluster how
	// many of those that one source cluster causes: none can occupy all of them.
	workers           = 16
	workersPerCluster = 4
	// writtenTTL is how long an updated slice is remembered that the cache does not show.
	writtenTTL = 10 * time.Second
	byImport   = sourceindex.ByImport
	byCluster  = sourceindex.ByCluster
)

// Findings are what connections to the endpoints of silent members found.
type Findings interface {
	Finding(cluster string, service types.NamespacedName) liveness.Finding
}

// Controller writes derived Services and imported EndpointSlices.
type Controller struct {
	client   kubernetes.Interface
	computed versioned.Interface
	clock    clock.PassiveClock
	queue    loop.TypedQueue[key]
	pace     *pace.Limiter[key]
	volume   *pace.Turns[key]
	// manyPorts is held while a derived Service with many ports is updated.
	manyPorts sync.Mutex
	echoes    *echoes
	// contributions are those of members to derived Services.
	contributions *contributions
	handlers      loop.Handlers
	refusals      *refusals
	// healthPorts are the health check node ports of derived Services.
	healthPorts *healthPorts
	// tiers are the clusters that should answer, and method is how kube-proxy is told.
	tiers    *tiers
	method   preference.Method
	nodes    corev1listers.NodeLister
	findings Findings
	imports  multiclusterxlisters.ServiceImportLister
	wanting  cache.Indexer // the imports, indexed by their shared ClusterSet IPs
	members  clustersetlisters.MemberLister
	services cache.Indexer
	// Indexed by import, and by source cluster.
	exported, exportedSlices, slices cache.Indexer
	// written are the slices as they were updated last, if the cache does not show that yet: one worker
	// must not decide by what another one has changed.
	written cache.MutationCache

	mu sync.Mutex
	// addresses are the last cluster IPs of derived Services, so that one that is
	// deleted by accident is created again with them.
	addresses map[types.NamespacedName]address
	// silent are the members that have been silent for their TTL, as last known.
	silent map[string]*clustersetv1alpha1.Member
	// outdated are the members of which another replica may know newer exports.
	outdated map[string]outdatedPeriod
	// postponed are the clusters of which something was left as it is because they were
	// outdated, or not read: until they are read if true.
	postponed map[string]bool
	// left are the derived Services that own what is left as it is until it is known
	// whether it answers.
	left map[key]types.UID
	// labeling are the derived Services that are waiting for labels of imported
	// EndpointSlices, and since when.
	labeling map[types.NamespacedName]time.Time
}

type address struct {
	ips      []string
	families []corev1.IPFamily
	// refused is when the host first refused to allocate them again.
	refused time.Time
}

// New returns a controller. computed and own are the client and the informer factory
// of the mcs-apiserver API, client and host those of the cluster's own API. Reconsider
// is to be called when findings change. By method, kube-proxy is told which clusters answer.
func New(
	client kubernetes.Interface, computed versioned.Interface, clock clock.PassiveClock, findings Findings, method preference.Method,
	host informers.SharedInformerFactory, own mcsinformers.SharedInformerFactory,
) (*Controller, error) {
	registerMetrics()
	imports := own.MulticlusterX().V1beta1().ServiceImports()
	exported := own.ClusterSet().V1alpha1().ExportedServices()
	exportedSlices := own.ClusterSet().V1alpha1().ExportedEndpointSlices()
	members := own.ClusterSet().V1alpha1().Members()
	services := host.Core().V1().Services()
	nodes := host.Core().V1().Nodes()
	endpointSlices := host.Discovery().V1().EndpointSlices()
	c := &Controller{
		client:         client,
		computed:       computed,
		clock:          clock,
		pace:           pace.New[key](clock, writeInterval, writeBurst),
		volume:         pace.NewTurns[key](clock, volumePerSecond, volumeBurst),
		imports:        imports.Lister(),
		wanting:        imports.Informer().GetIndexer(),
		members:        members.Lister(),
		exported:       exported.Informer().GetIndexer(),
		exportedSlices: exportedSlices.Informer().GetIndexer(),
		services:       services.Informer().GetIndexer(),
		slices:         endpointSlices.Informer().GetIndexer(),
		written:        cache.NewIntegerResourceVersionMutationCache(klog.Background(), endpointSlices.Informer().GetIndexer(), endpointSlices.Informer().GetIndexer(), writtenTTL, false),
		addresses:      map[types.NamespacedName]address{},
		silent:         map[string]*clustersetv1alpha1.Member{},
		findings:       findings,
		outdated:       map[string]outdatedPeriod{},
		postponed:      map[string]bool{},
		left:           map[key]types.UID{},
		labeling:       map[types.NamespacedName]time.Time{},
		refusals:       newRefusals(clock),
		echoes:         newEchoes(),
		contributions:  newContributions(clock),
		healthPorts:    newHealthPorts(),
		tiers:          newTiers(),
		method:         method,
		nodes:          nodes.Lister(),
	}
	c.queue = loop.NewFairQueue("dataplane", workersPerCluster, c.source)
	c.handlers = loop.Handlers{
		imports.Informer():        loop.OnChange(c.enqueueName),
		exported.Informer():       loop.OnChange(c.enqueueExport),
		exportedSlices.Informer(): loop.OnChange(c.enqueueExporter),
		services.Informer():       loop.OnChange(c.serviceChanged),
		endpointSlices.Informer(): loop.OnTransition(c.sliceChanged),
		members.Informer():        loop.OnChange(c.memberChanged),
		nodes.Informer():          loop.OnChange(func(metav1.Object) { c.queue.Add(rezoned) }),
	}
	byOrigin := sourceindex.Indexers()
	return c, errors.Join(
		loop.EnsureIndexers(services.Informer(), cache.Indexers{byAddress: indexByAddress}),
		loop.EnsureIndexers(imports.Informer(), cache.Indexers{byWantedIP: indexByWantedIP}),
		loop.EnsureIndexers(exported.Informer(), byOrigin),
		loop.EnsureIndexers(exportedSlices.Informer(), byOrigin),
		loop.EnsureIndexers(endpointSlices.Informer(), byOrigin),
	)
}

// serviceChanged remembers the cluster IPs of derived Services.
func (c *Controller) serviceChanged(object metav1.Object) {
	service, ok := object.(*corev1.Service)
	if !ok {
		return
	}
	c.addressesChanged(service)
	if !isDerived(service) {
		return
	}
	name := types.NamespacedName{Namespace: service.Namespace, Name: service.Labels[multicluster.ServiceNameLabel]}
	c.rememberAddresses(name, service)
	c.observeHealthPort(name)
	c.enqueueAll(name)
}

// rememberAddresses remembers the cluster IPs of the derived Service of an import, if it has any.
func (c *Controller) rememberAddresses(name types.NamespacedName, service *corev1.Service) {
	if service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addresses[name] = address{ips: service.Spec.ClusterIPs, families: service.Spec.IPFamilies}
}

// addressesChanged enqueues the imports whose shared ClusterSet IP is, or was, an
// address of a Service: they may be waiting for that address.
func (c *Controller) addressesChanged(service *corev1.Service) {
	addresses, err := indexByAddress(service)
	if err != nil {
		return // unreachable: the object is a Service
	}
	for _, address := range addresses {
		imports, err := c.wanting.ByIndex(byWantedIP, address)
		if err != nil {
			return // unreachable: the index exists
		}
		for _, serviceImport := range imports {
			c.enqueueName(serviceImport.(metav1.Object))
		}
	}
}

// Run runs the controller until the context is canceled. Only the leader runs it.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "dataplane"))
	defer forgetActive() // another replica leads
	return loop.RunHandlers(ctx, c.handlers, c.queue, workers, c.sync)
}

func (c *Controller) sync(ctx context.Context, key key) error {
	switch key {
	case settled:
		c.resume()
		return nil
	case rezoned:
		return c.updateZones()
	}
	if key.cluster != "" {
		return c.syncCluster(ctx, key)
	}
	serviceImport, err := c.imports.ServiceImports(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err):
		return c.remove(ctx, key.NamespacedName)
	case err != nil:
		return err
	case retained(serviceImport):
		return nil // an event follows when it is known whether it is exported
	}
	return c.applyService(ctx, key.NamespacedName, serviceImport)
}

// remove deletes the objects of a deleted import. An import that is replaced by
// another one of the same name is missing from the cache for a moment, but never from
// the server. Its objects stay, and so does its cluster IP; the addition is an event.
// What is imported from an outdated member stays as well, and with it the derived
// Service: another replica may know its import.
func (c *Controller) remove(ctx context.Context, name types.NamespacedName) error {
	slices, service := c.existingSlices(name), c.existingService(name)
	existing := len(slices)
	maps.DeleteFunc(slices, func(_ string, slice *discoveryv1.EndpointSlice) bool {
		return c.postponeOutdated(slice.Labels[multicluster.SourceClusterLabel])
	})
	stays := len(slices) < existing
	hasService := service != nil && isDerivedFrom(service, name.Name) && !stays
	if len(slices) == 0 && !hasService && (stays || !c.hadAddresses(name)) {
		c.forget(name)
		return nil
	}
	if !c.mayWrite(ofService(name)) {
		return nil
	}
	_, err := c.computed.MulticlusterXV1beta1().ServiceImports(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		return nil
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("confirm that the ServiceImport was deleted: %w", err)
	}
	var errs []error
	for _, slice := range slices {
		errs = append(errs, c.deleteSlice(ctx, slice))
	}
	if hasService {
		errs = append(errs, c.deleteService(ctx, service))
	}
	if err := errors.Join(errs...); err != nil || stays {
		return err
	}
	c.mu.Lock()
	delete(c.addresses, name) // an import of the same name may get others
	c.mu.Unlock()
	c.forget(name)
	return nil
}

// forget forgets what is known of the derived Service of a deleted import.
func (c *Controller) forget(name types.NamespacedName) {
	c.mu.Lock()
	delete(c.labeling, name)
	c.mu.Unlock()
	c.refusals.forget(name)
	c.contributions.forget(name)
	c.healthPorts.release(name)
	unlock := c.tiers.deciding.lock(name) // what was decided before is forgotten, and nothing is after
	defer unlock()
	c.tiers.forget(name)
	c.tiers.setIneffective(name, "")
}

// hadAddresses reports whether the derived Service of an import has, or had, cluster
// IPs.
func (c *Controller) hadAddresses(key types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, found := c.addresses[key]
	return found
}

// existingService returns the Service with the name of the derived Service of an
// import, whether it is managed by this controller or not.
func (c *Controller) existingService(key types.NamespacedName) *corev1.Service {
	object, exists, err := c.services.GetByKey(key.Namespace + "/" + multicluster.DerivedServiceName(key.Namespace, key.Name))
	if err != nil || !exists {
		return nil
	}
	return object.(*corev1.Service)
}

// serviceOf returns the derived Service of an import, nil if there is none that may own slices.
func (c *Controller) serviceOf(name types.NamespacedName) *corev1.Service {
	service := c.existingService(name)
	if service == nil || !isDerivedFrom(service, name.Name) || service.DeletionTimestamp != nil {
		return nil
	}
	return service
}

// existingSlices returns the imported EndpointSlices of an import by name.
func (c *Controller) existingSlices(key types.NamespacedName) map[string]*discoveryv1.EndpointSlice {
	existing := map[string]*discoveryv1.EndpointSlice{}
	objects, err := c.written.ByIndex(byImport, key.String())
	if err != nil {
		return existing
	}
	for _, object := range objects {
		if slice := object.(*discoveryv1.EndpointSlice); slice.Labels[discoveryv1.LabelManagedBy] == multicluster.ManagedBy {
			existing[slice.Name] = slice
		}
	}
	return existing
}

// exporter returns the service of a cluster with its endpoints. It returns nil if the
// cluster does not export the service.
func (c *Controller) exporter(key key) (*exporter, error) {
	services, err := c.exported.ByIndex(byImport, key.String())
	if err != nil {
		return nil, err
	}
	endpointSlices, err := c.exportedSlices.ByIndex(byImport, key.String())
	if err != nil {
		return nil, err
	}
	var found *exporter
	for _, object := range services {
		if service := object.(*clustersetv1alpha1.ExportedService); service.Spec.Cluster == key.cluster {
			found = &exporter{service: service}
		}
	}
	if found == nil {
		return nil, nil
	}
	for _, object := range endpointSlices {
		if slice := object.(*clustersetv1alpha1.ExportedEndpointSlice); slice.Spec.Cluster == key.cluster {
			found.slices = append(found.slices, slice)
		}
	}
	return found, nil
}
