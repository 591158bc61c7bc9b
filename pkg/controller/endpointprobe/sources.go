// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
)

// allowedCIDRs are those of a Secret.
type allowedCIDRs struct {
	// version is the last version of the Secret, and cidrs what its last valid version
	// allows. Known is set if there was one.
	version string
	cidrs   []netip.Prefix
	known   bool
	// named are the clusters that the last valid version names: the member, and those that
	// it may relay.
	named sets.Set[string]
}

// after returns the CIDRs when the Secret has changed. One that became invalid allows what
// it allowed before, as for mcs-apiserver.
func (a allowedCIDRs) after(member *corev1.Secret) allowedCIDRs {
	if a.version == member.ResourceVersion && a.version != "" {
		return a
	}
	a.version = member.ResourceVersion
	if spec := secret.Parse(member); spec.Problem == nil {
		a.cidrs, a.known = spec.AllowedCIDRs, true
		a.named = sets.New(spec.EntryName(), spec.FallbackName()).Union(spec.Relay.IDs)
	}
	return a
}

// source is the member from which a cluster is known: that member, or a hub that relays it.
type source struct {
	// allowedCIDRs are those that endpoints may be in, according to the Secret of the
	// member. They are empty if the Secret does not limit them, or if it is not known
	// whether it does.
	allowedCIDRs
	// slots limit how many Services are asked at a time: a hub that relays many clusters
	// must not delay what is found out about others. There are more for Services that
	// answered, and for samples.
	slots, answered, samples chan struct{}
}

// take waits for a slot, and returns what frees it, nil if the context is canceled first.
func (s source) take(ctx context.Context, hasAnswered bool) (free func()) {
	var others chan struct{} // nil, in which there is never any
	if hasAnswered {
		others = s.answered
	}
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }
	case others <- struct{}{}:
		return func() { <-others }
	case <-ctx.Done():
		return nil
	}
}

// takeForSample is like take for a sample, which does not delay anything else: it waits only
// for a slot that is for samples.
func (s source) takeForSample(ctx context.Context) (free func()) {
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }
	default:
	}
	select {
	case s.samples <- struct{}{}:
		return func() { <-s.samples }
	case <-ctx.Done():
		return nil
	}
}

// sourceOf returns the source of a cluster. It allows nothing if the Secret or the hub is not
// in the caches.
func (p *Prober) sourceOf(entry *clustersetv1alpha1.Member) source {
	uid := entry.UID
	if hops := entry.Status.Path; len(hops) > 1 {
		hub, err := p.members.Get(hops[len(hops)-1])
		if err != nil {
			return source{}
		}
		uid = hub.UID
	}
	found, err := secret.ByUID(p.secrets, uid)
	if err != nil || found == nil {
		return source{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	current, known := p.sources[uid]
	if !known {
		current.slots = make(chan struct{}, atOnce-forAnswered-forSamples)
		current.answered, current.samples = make(chan struct{}, forAnswered), make(chan struct{}, forSamples)
	}
	current.allowedCIDRs = current.after(found)
	p.sources[uid] = current
	return current
}

func (p *Prober) secretUIDs() sets.Set[types.UID] {
	secrets, err := p.secrets.List(labels.Everything())
	if err != nil {
		return nil // unreachable: it is a cache
	}
	uids := sets.New[types.UID]()
	for _, secret := range secrets {
		uids.Insert(secret.UID)
	}
	return uids
}
