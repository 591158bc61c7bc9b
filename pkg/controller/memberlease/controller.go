// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memberlease maintains a Lease per member. Its renew time is when any replica last
// saw the member. The replicas of mcs-apiserver share their sightings with these Leases,
// which also outlive them.
package memberlease

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coordinationv1listers "k8s.io/client-go/listers/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/controller/loop"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	clustersetlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
)

// renewEvery is the minimum time between two renewals of a Lease, and between two writes
// of this replica: there may be hundreds of members, their TTL is much longer, and replicas
// that do not agree for a while must not write in turns.
const renewEvery = 10 * time.Second

// A hub may relay other clusters every time it is asked. relayedRate is how many Leases of
// clusters that one hub relays are created per second, and relayedBurst how many at once.
// The same limits hold for all that are deleted.
const (
	relayedRate  = 20
	relayedBurst = 200
)

const (
	// maxSkew is how far ahead the clock of another replica may be. A Lease that was
	// renewed later than that is renewed with the next sighting, as if it had never been.
	maxSkew = 10 * time.Second
	// writeTimeout limits one write: the other Leases wait for it.
	writeTimeout = 5 * time.Second
	// settling is how long a replica leaves the Lease of a member alone that it does not know:
	// since its server is ready, because that may not have read the hub of the member yet, and
	// since another replica renewed the Lease, because that one knows the member.
	settling = time.Minute
)

// Controller reconciles the Leases of members.
type Controller struct {
	client    coordinationv1client.LeasesGetter
	clock     clock.PassiveClock
	namespace string
	queue     loop.Queue
	handlers  loop.Handlers
	members   clustersetlisters.MemberLister
	leases    coordinationv1listers.LeaseLister
	// healthy reports whether the own server is ready, and its members are up to date.
	healthy func() bool
	// healthySince is since when that is so, zero if it is not. Only the worker uses it.
	healthySince time.Time
	// written is what this replica last wrote about a member. Only the worker uses it.
	written map[string]written
	// relayed limits how many Leases are created, by hub. Only the worker uses it.
	relayed map[string]*rate.Limiter
}

// written is when the Lease of a member was last written, and the last sighting of the own
// server in it.
type written struct {
	at   time.Time
	seen sighting.Sighting
}

// New returns a controller for the Leases in a namespace. host is an informer factory for
// that namespace. Nothing is written while healthy returns false.
func New(client coordinationv1client.LeasesGetter, clock clock.PassiveClock, namespace string, host informers.SharedInformerFactory, own mcsinformers.SharedInformerFactory, healthy func() bool) *Controller {
	members := own.ClusterSet().V1alpha1().Members()
	leases := host.Coordination().V1().Leases()
	c := &Controller{
		client: client, clock: clock, namespace: namespace, members: members.Lister(), leases: leases.Lister(), healthy: healthy,
		written: map[string]written{}, relayed: map[string]*rate.Limiter{},
	}
	c.queue = loop.NewFairQueue("memberlease", 1, c.source)
	c.handlers = loop.Handlers{
		members.Informer(): loop.OnChange(func(object metav1.Object) { c.queue.Add(types.NamespacedName{Name: object.GetName()}) }),
		leases.Informer():  loop.OnChange(c.leaseChanged),
	}
	return c
}

func (c *Controller) leaseChanged(object metav1.Object) {
	if lease, ok := object.(*coordinationv1.Lease); ok {
		if seen, ok := sighting.FromLease(lease); ok {
			c.queue.Add(types.NamespacedName{Name: seen.Member})
		}
	}
}

// Run runs the controller until the context is canceled. Every replica runs it.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), "memberlease"))
	return c.handlers.Run(ctx, c.queue, 1, c.sync)
}

// source returns what a Lease is attributed to: a hub, if it is that of a cluster that the
// hub relays, or the cluster. All Leases without a member are attributed to the same.
func (c *Controller) source(key types.NamespacedName) string {
	entry, err := c.members.Get(key.Name)
	switch {
	case err != nil:
		return ""
	case len(entry.Status.Path) > 1:
		return entry.Status.Path[len(entry.Status.Path)-1]
	}
	return key.Name
}

// allows reports whether a Lease may be created or deleted now.
func (c *Controller) allows(key types.NamespacedName) bool {
	source := c.source(key)
	if source == key.Name {
		return true
	}
	limiter, ok := c.relayed[source]
	if !ok {
		limiter = rate.NewLimiter(relayedRate, relayedBurst)
		c.relayed[source] = limiter
	}
	return limiter.AllowN(c.clock.Now(), 1)
}

func (c *Controller) sync(ctx context.Context, key types.NamespacedName) error {
	existing, err := c.leases.Leases(c.namespace).Get(sighting.LeaseName(key.Name))
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	entry, err := c.members.Get(key.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err != nil {
		entry = nil
	}
	if !c.healthy() {
		c.healthySince = time.Time{}
		c.queue.AddAfter(key, renewEvery)
		return nil
	}
	if c.healthySince.IsZero() {
		c.healthySince = c.clock.Now()
	}
	last := c.written[key.Name]
	wanted := desired(existing, entry, last.seen, c.clock.Now())
	if wanted == nil && existing == nil {
		delete(c.written, key.Name) // another replica may have deleted it
	}
	if wanted == existing {
		return nil
	}
	if wait := last.at.Add(renewEvery).Sub(c.clock.Now()); wait > 0 {
		c.queue.AddAfter(key, wait)
		return nil
	}
	if wait := unsettled(existing, entry, last.seen, c.healthySince, c.clock.Now()); wait > 0 {
		c.queue.AddAfter(key, wait)
		return nil
	}
	if (existing == nil || wanted == nil) && !c.allows(key) {
		c.queue.AddAfter(key, renewEvery)
		return nil
	}
	if err := c.write(ctx, existing, wanted); err != nil {
		return err
	}
	if wanted == nil {
		delete(c.written, key.Name)
		return nil
	}
	last.at = c.clock.Now()
	if own, recorded := sightingOf(entry), wanted.Spec.RenewTime; own.At.Equal(recorded.Time) {
		last.seen = own
	}
	c.written[key.Name] = last
	return nil
}

// write replaces a Lease, unless another replica has in the meantime: the loop then
// compares again.
func (c *Controller) write(ctx context.Context, existing, wanted *coordinationv1.Lease) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	client := c.client.Leases(c.namespace)
	switch {
	case wanted == nil:
		precondition := metav1.Preconditions{UID: &existing.UID, ResourceVersion: &existing.ResourceVersion}
		if err := client.Delete(ctx, existing.Name, metav1.DeleteOptions{Preconditions: &precondition}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete Lease of former member: %w", err)
		}
	case existing == nil:
		if _, err := client.Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create Lease of member: %w", err)
		}
	default:
		if _, err := client.Update(ctx, wanted, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("renew Lease of member: %w", err)
		}
	}
	return nil
}

// desired returns the Lease of a member, nil if it should have none, or the existing one
// if it does not have to be written. Of the sightings of all replicas, the newest counts. The
// clocks of replicas may differ, so that each takes its own for the newest: last is the one
// that this replica wrote last, which it does not write again.
func desired(existing *coordinationv1.Lease, entry *clustersetv1alpha1.Member, last sighting.Sighting, now time.Time) *coordinationv1.Lease {
	var held sighting.Sighting
	if existing != nil {
		var managed bool
		if held, managed = sighting.FromLease(existing); !managed {
			return existing
		}
	}
	if entry == nil || entry.Status.State == clustersetv1alpha1.MemberLocal || entry.Status.State == clustersetv1alpha1.MemberRefused {
		return nil
	}
	if entry.Status.LastSeen == nil {
		return existing // not seen since the server started
	}
	seen, ttl := sightingOf(entry), entry.Status.TTLSeconds
	later, ahead := seen.At.Sub(held.At), held.At.After(now.Add(maxSkew))
	isNew := seen.UID != last.UID || !seen.At.Equal(last.At)
	switch {
	case existing == nil, isNew && (ahead || later >= renewEvery):
		return sighting.Record(existing, seen, ttl)
	case seen.UID != held.UID:
		return existing // another replica just saw another cluster with this ID
	case held.Lost && !seen.Lost && later > 0:
		return sighting.Record(existing, seen, ttl)
	case !held.Lost && seen.Lost && (ahead || later >= -maxSkew):
		// The server knows the newest sighting: one that it does not know is later by the TTL, not
		// by what the clock of another replica may be ahead.
		held.Lost = true
		return sighting.Record(existing, held, ttl)
	case ptr.Deref(existing.Spec.LeaseDurationSeconds, 0) != ttl:
		return sighting.Record(existing, held, ttl)
	}
	return existing
}

// unsettled returns for how long the Lease of a member without an entry is left alone. A
// sighting that this replica wrote itself, and no other since, is not waited for.
func unsettled(existing *coordinationv1.Lease, entry *clustersetv1alpha1.Member, last sighting.Sighting, healthySince, now time.Time) time.Duration {
	if existing == nil || entry != nil {
		return 0
	}
	held, _ := sighting.FromLease(existing)
	if !last.At.IsZero() && held.UID == last.UID && held.At.Equal(last.At) {
		return 0
	}
	wait := healthySince.Add(settling).Sub(now)
	if !held.At.After(now.Add(maxSkew)) {
		wait = max(wait, held.At.Add(settling).Sub(now))
	}
	return wait
}

// sightingOf returns when the own server, or a replica that it knows of, last saw a member.
func sightingOf(entry *clustersetv1alpha1.Member) sighting.Sighting {
	lost := entry.Status.State == clustersetv1alpha1.MemberLost || entry.Status.Expired
	return sighting.Sighting{Member: entry.Name, UID: entry.Status.ClusterUID, At: entry.Status.LastSeen.Time, Lost: lost}
}
