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

func (p *Projection) loadBirths(ctx context.Context) (int64, error) {
	for {
		revision, err := p.config.Births.load(ctx)
		if err == nil || ctx.Err() != nil {
			return revision, err
		}
		klog.FromContext(ctx).Error(err, "Trying again")
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// computeAll computes everything once, before anybody may read it.
func (p *Projection) computeAll(ctx context.Context) error {
	pending, err := p.everyService()
	if err != nil {
		return err
	}
	for len(pending) > 0 {
		var again sync.Map
		var group sync.WaitGroup
		slots := make(chan struct{}, workers)
		for _, service := range pending {
			slots <- struct{}{}
			group.Go(func() {
				defer func() { <-slots }()
				if err := p.syncService(ctx, service); err != nil {
					again.Store(service, err)
				}
			})
		}
		group.Wait()
		pending = nil
		again.Range(func(service, err any) bool {
			pending = append(pending, service.(types.NamespacedName))
			klog.FromContext(ctx).Error(err.(error), "Computing an import failed; trying again", "service", service)
			return true
		})
		if len(pending) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	// Last, because the own entry says how much was computed.
	for _, name := range p.members.Names() {
		p.syncMember(name)
	}
	p.buryInherited()
	return nil
}

// buryInherited removes the records of imports that died while no server was
// running, once every member has been heard: before, one that is not known
// here may be known to another replica.
func (p *Projection) buryInherited() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inherited == nil || !p.members.Settled() {
		return
	}
	for service, uid := range p.inherited {
		exports, err := p.exports(service)
		hosted, hostErr := p.hosts(service.Namespace)
		if err != nil || hostErr != nil {
			return // some other time
		}
		if !hosted || len(exports) == 0 {
			p.dead[service] = uid
			p.enqueueService(service)
		}
	}
	p.inherited = nil
}

// everyService lists all services that anybody exports, or that something is
// shown of.
func (p *Projection) everyService() ([]types.NamespacedName, error) {
	services := sets.New(p.members.Services()...)
	exports, err := p.local.Exports.List(everything)
	if err != nil {
		return nil, err
	}
	for _, export := range exports {
		services.Insert(types.NamespacedName{Namespace: export.Namespace, Name: export.Name})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for service := range p.published {
		services.Insert(service)
	}
	return services.UnsortedList(), nil
}
