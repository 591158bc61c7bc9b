// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"fmt"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// key identifies what a worker computes: a Service, a member, everything that
// depends on the ClusterClaims, the networks of this cluster, the end of the
// retention of imports, or what depends on the ClusterProperties of a member.
type key struct {
	kind keyKind
	name types.NamespacedName
	// source is the other cluster whose exports or ClusterProperties changed, empty for anything else. The
	// queue is fair between sources.
	source string
}

type keyKind int

const (
	serviceKey keyKind = iota
	memberKey
	claimsKey
	networksKey
	retentionKey
	propertiesKey
)

// String returns a description of the key for logs.
func (k key) String() string {
	switch k.kind {
	case serviceKey:
		return "Service " + k.name.String()
	case memberKey:
		return "member " + k.name.Name
	case claimsKey:
		return "ClusterClaims"
	case networksKey:
		return "networks of this cluster"
	case retentionKey:
		return "retained ServiceImports"
	case propertiesKey:
		return "ClusterProperties of member " + k.name.Name
	}
	return fmt.Sprintf("unknown kind %d", int(k.kind))
}

// work processes keys until the queue is shut down.
func (p *Projection) work(ctx context.Context) {
	for {
		item, shutdown := p.queue.Get()
		if shutdown {
			return
		}
		if err := p.process(ctx, item); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to update virtual resources, retrying", "key", item.String(), "namespace", item.name.Namespace, "service", item.name.Name)
			p.queue.AddRateLimited(item)
		} else {
			p.queue.Forget(item)
		}
		p.queue.Done(item)
	}
}

// process computes a key. It turns a panic into an error, so that one key
// cannot end the process: all other imports would disappear with it.
func (p *Projection) process(ctx context.Context, item key) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			panics.Inc()
			klog.FromContext(ctx).Error(nil, "Recovered from a panic", "key", item.String(), "panic", reason, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic while processing %s: %v", item, reason)
		}
	}()
	switch item.kind {
	case serviceKey:
		return p.syncService(item.name)
	case memberKey:
		p.syncMember(item.name.Name)
		p.release(false)
		return nil
	case claimsKey:
		return p.syncClaims(ctx)
	case networksKey:
		return p.syncNetworks()
	case retentionKey:
		if !p.release(true) {
			p.queue.AddAfter(item, retentionCheck)
		}
		return nil
	case propertiesKey:
		return p.syncProperties(item.name.Name)
	}
	return fmt.Errorf("key has an %s", item)
}

func (p *Projection) syncMember(name string) {
	if entry := p.members.Entry(name); entry != nil {
		p.stores.members.Set(entry.DeepCopy())
	} else {
		p.stores.members.Delete("", name)
	}
}
