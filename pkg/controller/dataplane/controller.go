// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dataplane makes of every ServiceImport what stock kube-proxy and
// stock CoreDNS understand: a Service that stands for it, and EndpointSlices
// with the endpoints of all clusters that export it.
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
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	clustersetlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/clusterset/v1alpha1"
	multiclusterxlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/multiclusterx/v1beta1"
)

const (
	// workers is how many imports are dealt with at a time.
	workers = 8
	// byImport is the index of everything that belongs to an import.
	byImport = "import"
	// byCluster is the index of what a cluster exports.
	byCluster = "cluster"
)

// Controller writes the Services and EndpointSlices of imports.
type Controller struct {
	client   kubernetes.Interface
	clock    clock.PassiveClock
	queue    loop.Queue
	synced   []cache.InformerSynced
	imports  multiclusterxlisters.ServiceImportLister
	wanting  cache.Indexer // the same, by the addresses that they want
	members  clustersetlisters.MemberLister
	services cache.Indexer
	// Indexed by import, and by source cluster.
	exported, exportedSlices, slices cache.Indexer

	mu sync.Mutex
	// addresses are the IPs that imports had last, so that a Service that
	// somebody deleted comes back with them.
	addresses map[types.NamespacedName]address
	// lost are the clusters whose endpoints are withdrawn.
	lost sets.Set[string]
	// refused are the IPs for all clusters that are not to be had.
	refused map[types.NamespacedName]refusal
}

type address struct {
	ips      []string
	families []corev1.IPFamily
	// refused is since when they are not to be had back.
	refused time.Time
}

// New returns a controller. own are informers of our API, host those of the
// cluster's.
func New(client kubernetes.Interface, clock clock.PassiveClock, host informers.SharedInformerFactory, own mcsinformers.SharedInformerFactory) (*Controller, error) {
	imports := own.MulticlusterX().V1beta1().ServiceImports()
	exported := own.ClusterSet().V1alpha1().ExportedServices()
	exportedSlices := own.ClusterSet().V1alpha1().ExportedEndpointSlices()
	members := own.ClusterSet().V1alpha1().Members()
	services := host.Core().V1().Services()
	endpointSlices := host.Discovery().V1().EndpointSlices()
	c := &Controller{
		client:         client,
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
		refused:        map[types.NamespacedName]refusal{},
	}
	if err := services.Informer().AddIndexers(cache.Indexers{byAddress: indexByAddress}); err != nil {
		return nil, err
	}
	if err := imports.Informer().AddIndexers(cache.Indexers{byWantedIP: indexByWantedIP}); err != nil {
		return nil, err
	}
	for _, watched := range []struct {
		informer cache.SharedIndexInformer
		indexed  bool
		handle   func(metav1.Object)
	}{
		{imports.Informer(), false, c.enqueueName},
		{exported.Informer(), true, c.enqueueImport},
		{exportedSlices.Informer(), true, c.enqueueImport},
		{services.Informer(), false, c.serviceChanged},
		{endpointSlices.Informer(), true, c.enqueueOwned},
		{members.Informer(), false, c.memberChanged},
	} {
		if watched.indexed {
			if err := watched.informer.AddIndexers(cache.Indexers{byImport: indexByImport, byCluster: indexByCluster}); err != nil {
				return nil, err
			}
		}
		registration, err := watched.informer.AddEventHandler(loop.OnChange(watched.handle))
		if err != nil {
			return nil, err
		}
		c.synced = append(c.synced, registration.HasSynced)
	}
	return c, nil
}

// indexByImport indexes by the label that everything that belongs to an import has.
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

// enqueueOwned is for slices: those of others are of no interest.
func (c *Controller) enqueueOwned(object metav1.Object) {
	if object.GetLabels()[discoveryv1.LabelManagedBy] == multicluster.ManagedBy {
		c.enqueueImport(object)
	}
}

// serviceChanged remembers the addresses of Services that stand for imports.
func (c *Controller) serviceChanged(object metav1.Object) {
	service, ok := object.(*corev1.Service)
	if !ok {
		return
	}
	c.addressesChanged(service)
	if !ours(service) {
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

// addressesChanged looks at imports whose IP for all clusters leads to a Service,
// or did until now: they may have waited for that.
func (c *Controller) addressesChanged(service *corev1.Service) {
	addresses, err := indexByAddress(service)
	if err != nil {
		return // it is a Service
	}
	for _, address := range addresses {
		imports, err := c.wanting.ByIndex(byWantedIP, address)
		if err != nil {
			return // there is such an index
		}
		for _, serviceImport := range imports {
			c.enqueueName(serviceImport.(metav1.Object))
		}
	}
}

// Run works until the context ends. One replica at a time runs it.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "dataplane"))
	loop.Run(ctx, c.queue, workers, c.synced, c.sync)
	return nil
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

// remove removes what belonged to an import that is gone.
func (c *Controller) remove(ctx context.Context, key types.NamespacedName) error {
	var errs []error
	for _, slice := range c.existingSlices(key) {
		errs = append(errs, c.deleteSlice(ctx, slice))
	}
	if service := c.existingService(key); service != nil && ours(service) {
		errs = append(errs, c.deleteService(ctx, service))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.addresses, key) // its next life may have another
	delete(c.refused, key)
	return nil
}

// existingService is the Service with the name of the one that stands for an
// import, whoever made it.
func (c *Controller) existingService(key types.NamespacedName) *corev1.Service {
	object, exists, err := c.services.GetByKey(key.Namespace + "/" + multicluster.DerivedServiceName(key.Namespace, key.Name))
	if err != nil || !exists {
		return nil
	}
	return object.(*corev1.Service)
}

// existingSlices are the slices of an import that are ours, by name.
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

// exporters are the clusters that export the service and whose endpoints may be used.
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
