// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crdmirror copies the objects of CRDs of another implementation to mcs-apiserver while
// an administrator migrates from them, so that all of them exist when the group-versions are
// handed over. What the copies are is decided by package crdmigration.
package crdmirror

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
)

const (
	// collectDelay is how long changes are collected before they are copied.
	collectDelay = 500 * time.Millisecond
	// syncDelay is how long to wait for a cache.
	syncDelay = 200 * time.Millisecond
	// reviewInterval is how often it is checked which CRDs serve the resources, and whether
	// objects that were refused can be copied, while the mark exists.
	reviewInterval = 5 * time.Second
)

// apiServices is the resource of APIServices.
var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// Clients are the APIs that the controller uses.
type Clients struct {
	Kubernetes kubernetes.Interface
	// Host reads CRDs and APIServices.
	Host dynamic.Interface
	// Custom reads the objects of CRDs from the kube-apiserver, and Own writes those of
	// mcs-apiserver, both as the service account of the migration.
	Custom, Own dynamic.Interface
}

// Controller copies objects while the mark exists. It has one key: all resources are copied
// one after the other, and reported together.
type Controller struct {
	clients   Clients
	namespace string
	marks     cache.SharedIndexInformer
	queue     loop.Queue
	sources   map[schema.GroupVersionResource]*source
	running   sync.WaitGroup
}

// source is a cache of the objects of a CRD.
type source struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
}

var queueKey = types.NamespacedName{Name: "objects"}

// New returns a controller for an installation in a namespace. marks has the ConfigMap that
// says that objects are to be copied, and is run by others: a new leader lists nothing.
func New(clients Clients, namespace string, marks cache.SharedIndexInformer) *Controller {
	return &Controller{clients: clients, namespace: namespace, marks: marks, queue: loop.NewQueue("crdmirror"), sources: map[schema.GroupVersionResource]*source{}}
}

// Run runs the controller until the context is canceled. Only the leader runs it.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "crdmirror"))
	defer c.running.Wait()
	handlers := loop.Handlers{c.marks: loop.OnChange(func(metav1.Object) { c.queue.Add(queueKey) })}
	return loop.RunHandlers(ctx, handlers, c.queue, 1, c.sync)
}

func (c *Controller) sync(ctx context.Context, _ types.NamespacedName) error {
	mark, err := c.mark()
	if err != nil {
		return err
	}
	if mark == nil || crdmigration.PhaseOf(mark) != crdmigration.Copying {
		c.stopAllBut(nil)
		return nil
	}
	defer c.queue.AddAfter(queueKey, reviewInterval)
	report, synced, err := c.copyAll(ctx, mark)
	report.Request = crdmigration.RequestOf(mark)
	switch {
	case err != nil && apierrors.IsConflict(err):
		return err // the next attempt reads the objects again
	case err != nil:
		report = crdmigration.Report{Problem: err.Error(), Request: report.Request}
	case !synced:
		c.queue.AddAfter(queueKey, syncDelay)
		return nil
	}
	mark = mark.DeepCopy()
	changed, reportErr := crdmigration.SetReport(mark, report)
	if reportErr == nil && changed {
		_, reportErr = c.clients.Kubernetes.CoreV1().ConfigMaps(c.namespace).Update(ctx, mark, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	return reportErr
}

// mark returns the ConfigMap that says that objects are to be copied, nil if there is none.
func (c *Controller) mark() (*corev1.ConfigMap, error) {
	object, exists, err := c.marks.GetStore().GetByKey(c.namespace + "/" + clusterset.MigrationConfigMap)
	if err != nil || !exists {
		return nil, err
	}
	return object.(*corev1.ConfigMap), nil
}

// copyAll copies the objects of all CRDs. It reports whether all caches have synced.
func (c *Controller) copyAll(ctx context.Context, mark *corev1.ConfigMap) (crdmigration.Report, bool, error) {
	report, synced := crdmigration.Report{Resources: map[string]crdmigration.ResourceReport{}}, true
	served := map[schema.GroupVersionResource]crdmigration.Resource{}
	for _, resource := range crdmigration.Copied {
		version, ok, err := c.servedByCRD(ctx, resource)
		if err != nil {
			return report, false, err
		}
		if ok {
			served[resource.In(version)] = resource
		}
	}
	c.stopAllBut(served)
	for gvr, resource := range served {
		if !c.source(ctx, gvr).informer.HasSynced() {
			synced = false
			continue
		}
		result, err := c.copy(ctx, resource, gvr, crdmigration.ReturnedAt(mark, resource.Plural))
		if err != nil {
			return report, false, fmt.Errorf("copy %s: %w", resource.Plural, err)
		}
		report.Resources[resource.Plural] = result
	}
	return report, synced, nil
}

// servedByCRD returns the version in which a CRD serves a resource instead of mcs-apiserver.
// It asks the kube-apiserver: whatever is read from mcs-apiserver itself, or vanishes with its
// CRD, must not be mistaken for objects of the CRD.
func (c *Controller) servedByCRD(ctx context.Context, resource crdmigration.Resource) (string, bool, error) {
	crd, err := c.clients.Host.Resource(apiconflict.CRDResource).Get(ctx, resource.CRD(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", false, nil
	} else if err != nil {
		return "", false, fmt.Errorf("get CustomResourceDefinition %s: %w", resource.CRD(), err)
	}
	if apiconflict.IsPublished(crd) {
		return "", false, nil
	}
	local, err := c.local(ctx)
	if err != nil {
		return "", false, err
	}
	version, served := resource.ServedVersion(crd, local)
	return version, served, nil
}

// local returns the group-versions that the kube-apiserver serves itself.
func (c *Controller) local(ctx context.Context) ([]schema.GroupVersion, error) {
	var local []schema.GroupVersion
	for _, gv := range crdmigration.GroupVersions {
		name := apiconflict.APIServiceName(gv)
		apiService, err := c.clients.Host.Resource(apiServices).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("get APIService %s: %w", name, err)
		}
		if _, remote, _ := unstructured.NestedMap(apiService.Object, "spec", "service"); !remote {
			local = append(local, gv)
		}
	}
	return local, nil
}

// source returns the cache of a resource, and starts it if it is not running.
func (c *Controller) source(ctx context.Context, gvr schema.GroupVersionResource) *source {
	if existing := c.sources[gvr]; existing != nil {
		return existing
	}
	ctx, stop := context.WithCancel(ctx)
	started := &source{dynamicinformer.NewFilteredDynamicInformer(c.clients.Custom, gvr, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(), stop}
	// Adding a handler fails only for an informer that has stopped.
	_, _ = started.informer.AddEventHandler(loop.OnChange(func(metav1.Object) { c.queue.AddAfter(queueKey, collectDelay) }))
	c.running.Go(func() { started.informer.RunWithContext(ctx) })
	c.sources[gvr] = started
	return started
}

// stopAllBut stops all caches but those of these resources.
func (c *Controller) stopAllBut(served map[schema.GroupVersionResource]crdmigration.Resource) {
	for gvr, source := range c.sources {
		if _, ok := served[gvr]; !ok {
			source.stop()
			delete(c.sources, gvr)
		}
	}
}
