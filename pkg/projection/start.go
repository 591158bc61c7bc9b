// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importidentity"
)

// computeAll computes everything once, before the stores can be read.
func (p *Projection) computeAll(ctx context.Context) error {
	pending, err := p.everyService()
	if err != nil {
		return err
	}
	for len(pending) > 0 {
		pending = p.computeServices(ctx, pending)
		if len(pending) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	// Members are last because the entry of this cluster counts its exports.
	for _, name := range p.members.Names() {
		p.syncMember(name)
	}
	p.endUnverified()
	return nil
}

// computeServices computes Services concurrently and returns those that failed.
func (p *Projection) computeServices(ctx context.Context, services []types.NamespacedName) []types.NamespacedName {
	var mu sync.Mutex
	var failed []types.NamespacedName
	var group sync.WaitGroup
	slots := make(chan struct{}, workers)
	for _, service := range services {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			if err := p.process(ctx, key{serviceKey, service}); err != nil {
				klog.FromContext(ctx).Error(err, "Failed to compute ServiceImport, retrying", "namespace", service.Namespace, "service", service.Name)
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, service)
			}
		})
	}
	group.Wait()
	return failed
}

// derivedMarks returns what all derived Services are marked with, by import.
func (p *Projection) derivedMarks() (map[types.NamespacedName]string, error) {
	derived, err := p.local.Services.List(labels.SelectorFromSet(labels.Set{multicluster.ManagedByLabel: multicluster.ManagedBy}))
	marks := map[types.NamespacedName]string{}
	for _, service := range derived {
		if name := service.Labels[multicluster.ServiceNameLabel]; service.Name == multicluster.DerivedServiceName(service.Namespace, name) {
			marks[types.NamespacedName{Namespace: service.Namespace, Name: name}] = service.Annotations[multicluster.ImportLifeAnnotation]
		}
	}
	return marks, err
}

// endUnverified records the ends of imports that were withdrawn while no server
// ran: their derived Services were still there at startup. It waits until every
// member has been read: an import that is unknown to this replica before that may
// be known to another one.
func (p *Projection) endUnverified() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unverified == nil || !p.members.Settled() {
		return
	}
	for service, mark := range p.unverified {
		exports, err := p.exports(service)
		scope, scopeErr := p.scope(service.Namespace)
		if err != nil || scopeErr != nil {
			return // retried when another member changes
		}
		if scope == nil || len(exports) > 0 {
			continue
		}
		number := importidentity.Marked(mark, scope.NamespaceUID)
		if life, _ := p.config.Lives.Life(service.Namespace, scope.NamespaceUID, service.Name, number); life.Number == number {
			p.config.Lives.End(service.Namespace, scope.NamespaceUID, service.Name, number)
		}
	}
	p.unverified = nil
}

// everyService returns all Services that any cluster exports or that are
// published or imported.
func (p *Projection) everyService() ([]types.NamespacedName, error) {
	services := sets.New(p.members.Services()...)
	exports, err := p.local.Exports.List(everything)
	if err != nil {
		return nil, err
	}
	for _, export := range exports {
		services.Insert(types.NamespacedName{Namespace: export.Namespace, Name: export.Name})
	}
	for _, namespace := range p.imports.namespaces() {
		services.Insert(p.imports.services(namespace)...)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for service := range p.published.byService {
		services.Insert(service)
	}
	return services.UnsortedList(), nil
}
