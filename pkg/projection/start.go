// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
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
	p.release(false)
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
			if err := p.process(ctx, key{kind: serviceKey, name: service}); err != nil {
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

// everyService returns all Services that any cluster exports or that are
// published, imported or retained.
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
	for service := range p.unverified {
		services.Insert(service)
	}
	return services.UnsortedList(), nil
}
