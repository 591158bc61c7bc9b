// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
)

const (
	// publishInterval is the minimum time between two writes about a member, and partial
	// how long it takes until something is written although not all was asked.
	publishInterval = 5 * time.Second
	partial         = 10 * time.Second
	writeTimeout    = 5 * time.Second
)

// recorded returns what the Lease of a member says was found, nil if it does not, or is
// that of another cluster.
func (p *Prober) recorded(entry *clustersetv1alpha1.Member) *liveness.Look {
	lease := p.leaseOf(entry)
	if lease == nil || !isOf(lease, entry) {
		return nil
	}
	return sighting.LookFromLease(lease)
}

// leaseOf returns the Lease of a member, which may be about another cluster with the same ID,
// nil if there is none.
func (p *Prober) leaseOf(entry *clustersetv1alpha1.Member) *coordinationv1.Lease {
	lease, err := p.leaseLister.Leases(p.namespace).Get(sighting.LeaseName(entry.Name))
	if err != nil {
		return nil // it is a cache: there is none
	}
	if _, ok := sighting.FromLease(lease); !ok {
		return nil
	}
	return lease
}

func isOf(lease *coordinationv1.Lease, entry *clustersetv1alpha1.Member) bool {
	seen, ok := sighting.FromLease(lease)
	return ok && seen.UID == entry.Status.ClusterUID
}

func (p *Prober) publishAll(ctx context.Context, members []*clustersetv1alpha1.Member) {
	for _, entry := range members {
		p.publish(ctx, entry)
	}
}

// publish records what was found about a member, and about own endpoints, in the Lease of
// the member, if that differs from what is recorded there. There is none of a member that
// was never seen. One about another cluster has what was found about own endpoints, too.
func (p *Prober) publish(ctx context.Context, entry *clustersetv1alpha1.Member) {
	lease := p.leaseOf(entry)
	if lease == nil {
		return
	}
	next := p.unrecorded(entry, lease, p.clock.Now())
	if next == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err := p.leases.Leases(p.namespace).Update(ctx, next, metav1.UpdateOptions{})
	if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // of these, the next time takes care
		klog.FromContext(ctx).Error(err, "Failed to record whether endpoints of a member answer, retrying", "cluster", entry.Name)
	}
}

// unrecorded returns the Lease of a member with what is to be recorded, nil if that is
// nothing.
func (p *Prober) unrecorded(entry *clustersetv1alpha1.Member, lease *coordinationv1.Lease, now time.Time) *coordinationv1.Lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	look := p.looks[entry.Name]
	if look == nil || now.Sub(look.published) < publishInterval {
		return nil
	}
	next := lease
	if found := p.foundLocked(entry.Name, look, now); found != nil && look.isAt(entry) && isOf(lease, entry) {
		recorded := sighting.LookFromLease(lease)
		if found = sighting.Limited(found); !found.Same(recorded) {
			found.At = now
			next = sighting.RecordLook(lease, found)
		}
	}
	if p.own != unknown && p.own != experienceFrom(lease) {
		next = next.DeepCopy()
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, clusterset.OwnEndpointsAnnotation, string(p.own))
	}
	if next == lease {
		return nil
	}
	look.published = now
	return next
}

// foundLocked returns what was found about a member, nil if that does not matter, or may be
// known completely soon.
func (p *Prober) foundLocked(cluster string, look *look, now time.Time) *liveness.Look {
	switch {
	case !look.silent:
		return look.sample()
	case look.overdue:
		return nil
	}
	services := p.services(cluster)
	if len(services) == 0 {
		return nil
	}
	found := look.summary(services)
	if found.Pending > 0 && found.Problem == "" && now.Sub(look.begun) < partial {
		return nil
	}
	return found
}
