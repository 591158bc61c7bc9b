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
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	clustersetlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/clusterset/v1alpha1"
	multiclusterxlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/multiclusterx/v1beta1"
)

const (
	// workers is how many imports are reconciled concurrently.
	workers = 8
	// byImport indexes objects by the import that they belong to.
	byImport = "import"
	// byCluster indexes objects by their source cluster.
	byCluster = "cluster"
)

// Controller writes derived Services and imported EndpointSlices.
type Controller struct {
	client   kubernetes.Interface
	computed versioned.Interface
	clock    clock.PassiveClock
	queue    loop.Queue
	handlers loop.Handlers
	refusals *refusals
	imports  multiclusterxlisters.ServiceImportLister
	wanting  cache.Indexer // the imports, indexed by their shared ClusterSet IPs
	members  clustersetlisters.MemberLister
	services cache.Indexer
	// Indexed by import, and by source cluster.
	exported, exportedSlices, slices cache.Indexer

	mu sync.Mutex
	// addresses are the last cluster IPs of derived Services, so that one that is
	// deleted by accident is created again with them.
	addresses map[types.NamespacedName]address
	// lost are the clusters whose endpoints are withdrawn.
	lost sets.Set[string]
}

type address struct {
	ips      []string
	families []corev1.IPFamily
	// refused is when the host first refused to allocate them again.
	refused time.Time
}

// New returns a controller. computed and own are the client and the informer factory
// of the mcs-apiserver API, client and host those of the cluster's own API.
func New(client kubernetes.Interface, computed versioned.Interface, clock clock.PassiveClock, host informers.SharedInformerFactory, own mcsinformers.SharedInformerFactory) (*Controller, error) {
	imports := own.MulticlusterX().V1beta1().ServiceImports()
	exported := own.ClusterSet().V1alpha1().ExportedServices()
	exportedSlices := own.ClusterSet().V1alpha1().ExportedEndpointSlices()
	members := own.ClusterSet().V1alpha1().Members()
	services := host.Core().V1().Services()
	endpointSlices := host.Discovery().V1().EndpointSlices()
	c := &Controller{
		client:         client,
		computed:       computed,
		clock:          clock,
		queue:          loop.NewQueue("dataplane"),
		imports:        imports.Lister(),
		wanting:        imports.Informer().GetIndexer(),
		members:        members.Lister(),
		exported:       exported.Informer().GetIndexer(),
		exportedSlices: exportedSlices.Informer().GetIndexer(),
		services:       services.Informer().GetIndexer(),
		slices:         endpointSlices.Informer().GetIndexer(),
		addresses:      map[types.NamespacedName]address{},
		lost:           sets.New[string](),
		refusals:       newRefusals(clock),
	}
	c.handlers = loop.Handlers{
		imports.Informer():        loop.OnChange(c.enqueueName),
		exported.Informer():       loop.OnChange(c.enqueueImport),
		exportedSlices.Informer(): loop.OnChange(c.enqueueImport),
		services.Informer():       loop.OnChange(c.serviceChanged),
		endpointSlices.Informer(): loop.OnChange(c.enqueueOwned),
		members.Informer():        loop.OnChange(c.memberChanged),
	}
	byOrigin := cache.Indexers{byImport: indexByImport, byCluster: indexByCluster}
	return c, errors.Join(
		loop.EnsureIndexers(services.Informer(), cache.Indexers{byAddress: indexByAddress}),
		loop.EnsureIndexers(imports.Informer(), cache.Indexers{byWantedIP: indexByWantedIP}),
		loop.EnsureIndexers(exported.Informer(), byOrigin),
		loop.EnsureIndexers(exportedSlices.Informer(), byOrigin),
		loop.EnsureIndexers(endpointSlices.Informer(), byOrigin),
	)
}

// indexByImport returns the import that the labels of an object name.
func indexByImport(object any) ([]string, error) {
	metadata, ok := object.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", object)
	}
	if name := metadata.GetLabels()[multicluster.ServiceNameLabel]; name != "" {
		return []string{metadata.GetNamespace() + "/" + name}, nil
	}
	return nil, nil
}

func indexByCluster(object any) ([]string, error) {
	metadata, ok := object.(metav1.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", object)
	}
	if cluster := metadata.GetLabels()[multicluster.SourceClusterLabel]; cluster != "" {
		return []string{cluster}, nil
	}
	return nil, nil
}

func (c *Controller) enqueueName(object metav1.Object) {
	c.queue.Add(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
}

func (c *Controller) enqueueImport(object metav1.Object) {
	if name := object.GetLabels()[multicluster.ServiceNameLabel]; name != "" {
		c.queue.Add(types.NamespacedName{Namespace: object.GetNamespace(), Name: name})
	}
}

// enqueueOwned enqueues the import of an imported EndpointSlice. Other slices are
// ignored.
func (c *Controller) enqueueOwned(object metav1.Object) {
	if object.GetLabels()[discoveryv1.LabelManagedBy] == multicluster.ManagedBy {
		c.enqueueImport(object)
	}
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
	key := types.NamespacedName{Namespace: service.Namespace, Name: service.Labels[multicluster.ServiceNameLabel]}
	if service.Spec.ClusterIP != "" && service.Spec.ClusterIP != corev1.ClusterIPNone {
		c.mu.Lock()
		c.addresses[key] = address{ips: service.Spec.ClusterIPs, families: service.Spec.IPFamilies}
		c.mu.Unlock()
	}
	c.queue.Add(key)
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
	return c.handlers.Run(ctx, c.queue, workers, c.sync)
}

func (c *Controller) sync(ctx context.Context, key types.NamespacedName) error {
	serviceImport, err := c.imports.ServiceImports(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return c.remove(ctx, key)
	}
	if err != nil {
		return err
	}
	service, err := c.applyService(ctx, key, serviceImport)
	if err != nil || service == nil {
		return err
	}
	exporters, err := c.exporters(key)
	if err != nil {
		return err
	}
	return c.applySlices(ctx, key, serviceImport, service, exporters)
}

// remove deletes the objects of a deleted import. An import that is replaced by
// another one of the same name is missing from the cache for a moment, but never from
// the server. Its objects stay, and so does its cluster IP; the addition is an event.
func (c *Controller) remove(ctx context.Context, key types.NamespacedName) error {
	slices, service := c.existingSlices(key), c.existingService(key)
	hasService := service != nil && isDerived(service)
	if len(slices) == 0 && !hasService && !c.hadAddresses(key) {
		c.refusals.forget(key)
		return nil
	}
	_, err := c.computed.MulticlusterXV1beta1().ServiceImports(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
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
	if err := errors.Join(errs...); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.addresses, key) // an import of the same name may get others
	c.refusals.forget(key)
	return nil
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

// existingSlices returns the imported EndpointSlices of an import by name.
func (c *Controller) existingSlices(key types.NamespacedName) map[string]*discoveryv1.EndpointSlice {
	existing := map[string]*discoveryv1.EndpointSlice{}
	objects, err := c.slices.ByIndex(byImport, key.String())
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

// exporters returns the clusters that export a service, except those whose endpoints
// are withdrawn.
func (c *Controller) exporters(key types.NamespacedName) ([]exporter, error) {
	services, err := c.exported.ByIndex(byImport, key.String())
	if err != nil {
		return nil, err
	}
	endpointSlices, err := c.exportedSlices.ByIndex(byImport, key.String())
	if err != nil {
		return nil, err
	}
	endpoints := map[string][]*clustersetv1alpha1.ExportedEndpointSlice{}
	for _, object := range endpointSlices {
		slice := object.(*clustersetv1alpha1.ExportedEndpointSlice)
		endpoints[slice.Spec.Cluster] = append(endpoints[slice.Spec.Cluster], slice)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var exporters []exporter
	for _, object := range services {
		service := object.(*clustersetv1alpha1.ExportedService)
		if !c.lost.Has(service.Spec.Cluster) {
			exporters = append(exporters, exporter{service, endpoints[service.Spec.Cluster]})
		}
	}
	return exporters, nil
}
