// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exportstatus

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
)

// byIP indexes exports, those of all clusters and this cluster's own, by the
// addresses that they hold to.
const byIP = "exportsByClusterSetIP"

func indexByIP(object any) ([]string, error) {
	switch object := object.(type) {
	case *clustersetv1alpha1.ExportedService:
		if object.Spec.ClusterSetIP == nil {
			return nil, nil
		}
		return object.Spec.ClusterSetIP.IPs, nil
	case *multiclusterxv1beta1.ServiceExport:
		return export.RecordedIPs(object), nil
	}
	return nil, fmt.Errorf("%T has no IP", object)
}

// reasonClusterSetIPPending is that of an export that waits for one IP in all clusters.
const reasonClusterSetIPPending = "ClusterSetIPPending"

// decision is what an export should hold to: what it holds to now, if nothing
// else is decided. A problem is why it has no address, although it should; wait
// is when to look again, if nobody else tells.
type decision struct {
	held    *clusterset.ClusterSetIPDecision
	problem *export.Problem
	wait    time.Duration
}

// pending is a decision that is still to be made.
func pending(wait time.Duration, message string) decision {
	return decision{problem: &export.Problem{Reason: reasonClusterSetIPPending, Message: message}, wait: wait}
}

// ips are the addresses that the export should hold to.
func (d decision) ips() []string {
	if d.held == nil {
		return nil
	}
	return d.held.IPs
}

// decide decides about the IP of a service that this cluster exports.
func (c *Controller) decide(key types.NamespacedName, serviceExport *multiclusterxv1beta1.ServiceExport, known facts) (decision, error) {
	exports := c.standing(key, exportsOf(serviceExport, known))
	now := c.clock.Now()
	member, until := unheard(known.members, now)
	action := clustersetip.Decide(known.self.Status.ClusterID, exports, member == "")
	switch {
	case action.Record != nil:
		return decision{held: action.Record}, nil
	case action.Allocate:
		return c.allocate(key, known, exports)
	case clustersetip.InForce(exports) != nil:
		return decision{wait: until.Sub(now)}, nil // for no IP: that takes effect at once, and is only recorded later
	case member != "":
		return pending(until.Sub(now), fmt.Sprintf("one IP for all clusters is not decided on before all that member %q exports is known, but at %s at the latest: nothing has to be done",
			member, until.UTC().Format(time.RFC3339))), nil
	}
	return pending(0, fmt.Sprintf("waiting for cluster %q, whose export was the first, to allocate one IP for all clusters: its ServiceExport says if it cannot", action.WaitFor)), nil
}

// exportsOf are the exports of a service. This cluster's own holds to what it
// records itself: others may tell what it held to before. A lost member that has
// not allocated so far may never do so, so that nobody waits for it. That one wants
// no IP takes effect without its doing, and imports show it.
func exportsOf(serviceExport *multiclusterxv1beta1.ServiceExport, known facts) []clustersetip.Export {
	lost := sets.New[string]()
	for _, member := range known.members {
		if member.Status.State == clustersetv1alpha1.MemberLost {
			lost.Insert(member.Status.ClusterID)
		}
	}
	var exports []clustersetip.Export
	for _, exported := range known.exported {
		told := merge.FromV1alpha1(exported).IP
		switch {
		case told.Cluster == known.self.Status.ClusterID:
			told.Decision = export.RecordedDecision(serviceExport, known.joinedAt())
		case told.Decision == nil && told.Wants && lost.Has(told.Cluster):
			continue
		}
		exports = append(exports, told)
	}
	return exports
}

// standing are the exports of a service without the decisions that are void,
// because the addresses are another service's. That is rare: as a rule no two
// services hold one address.
func (c *Controller) standing(key types.NamespacedName, exports []clustersetip.Export) []clustersetip.Export {
	contested := false
	for _, held := range exports {
		if held.Decision == nil {
			continue
		}
		for _, ip := range held.Decision.IPs {
			contested = contested || len(c.holders(ip)) > 1
		}
	}
	if !contested {
		return exports
	}
	services := map[string][]clustersetip.Export{}
	for _, object := range c.exported.List() {
		exported := object.(*clustersetv1alpha1.ExportedService)
		service := exported.Namespace + "/" + exported.Spec.Service
		services[service] = append(services[service], merge.FromV1alpha1(exported).IP)
	}
	return clustersetip.NewClaims(services).Standing(key.String(), exports)
}

// exportedChanged notes which addresses are held, and which are not any more.
// Only when this has been called for an export that is gone is its address free:
// the cache shows it a little earlier.
func (c *Controller) exportedChanged(old, object any) {
	for address, key := range holding(object) {
		c.ledger.heldSeen(address, key)
	}
	c.noteFree(old, object)
	c.enqueueExported(old)
	c.enqueueExported(object)
}

// ownChanged notes which addresses this cluster itself does not hold to any more:
// it may never have been told back that it did.
func (c *Controller) ownChanged(old, object any) {
	c.noteFree(old, object)
	for _, state := range []any{old, object} {
		if own, ok := state.(*multiclusterxv1beta1.ServiceExport); ok {
			c.enqueue(own)
		}
	}
}

// noteFree notes the addresses that an export held to until now, and nobody does
// any more: others may have waited for them.
func (c *Controller) noteFree(old, object any) {
	still := holding(object)
	for address, key := range holding(old) {
		if _, held := still[address]; !held && c.holders(address.String()).Len() == 0 {
			c.ledger.freeSeen(address, key, c.clock.Now())
			c.enqueueWaiting()
		}
	}
}

// holding are the addresses that an export, of whatever cluster, holds to, and its
// service.
func holding(object any) map[netip.Addr]types.NamespacedName {
	var key types.NamespacedName
	switch object := object.(type) {
	case *clustersetv1alpha1.ExportedService:
		key = types.NamespacedName{Namespace: object.Namespace, Name: object.Spec.Service}
	case *multiclusterxv1beta1.ServiceExport:
		key = types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	}
	ips, err := indexByIP(object)
	if err != nil {
		return nil // there is no export
	}
	held := map[netip.Addr]types.NamespacedName{}
	for _, ip := range ips {
		if address, err := netip.ParseAddr(ip); err == nil {
			held[address] = key
		}
	}
	return held
}

// holders are the services that hold to an address, in any cluster.
func (c *Controller) holders(ip string) sets.Set[types.NamespacedName] {
	holders := sets.New[types.NamespacedName]()
	objects, err := c.exported.ByIndex(byIP, ip)
	if err != nil {
		return holders // there is such an index
	}
	for _, object := range objects {
		exported := object.(*clustersetv1alpha1.ExportedService)
		holders.Insert(types.NamespacedName{Namespace: exported.Namespace, Name: exported.Spec.Service})
	}
	return holders
}

// unheard is a member that has not been heard so far, but may be, and until when
// to wait for that at the latest: of several the one to wait for longest. What an
// unreachable member exported is remembered, unless it has never been heard; and
// one that can never be read to the end is given up after its TTL.
func unheard(members []*clustersetv1alpha1.Member, now time.Time) (name string, until time.Time) {
	for _, member := range members {
		since := member.CreationTimestamp.Time
		switch {
		case member.Status.State == clustersetv1alpha1.MemberConnecting:
		case member.Status.State == clustersetv1alpha1.MemberConnected && !member.Status.Synced:
			if synced := meta.FindStatusCondition(member.Status.Conditions, clusterset.MemberSynced); synced != nil {
				since = synced.LastTransitionTime.Time
			}
		default:
			continue
		}
		limit := since.Add(time.Duration(member.Status.TTLSeconds) * time.Second)
		if limit.After(now) && (limit.After(until) || limit.Equal(until) && member.Name < name) {
			name, until = member.Name, limit
		}
	}
	return name, until
}

// allocate decides on addresses of this cluster's part.
func (c *Controller) allocate(key types.NamespacedName, known facts, exports []clustersetip.Export) (decision, error) {
	if problem := cannotAllocate(known.self); problem != nil {
		return decision{problem: problem}, nil
	}
	cidrs, err := clustersetip.ParseCIDRs(known.self.Status.ClusterSetIPCIDRs)
	if err != nil {
		return decision{}, err
	}
	c.ledger.mu.Lock()
	defer c.ledger.mu.Unlock()
	now := c.clock.Now()
	if until := latest(c.ledger.started, known.joinedAt()).Add(clustersetip.PropagationDelay); now.Before(until) {
		return pending(until.Sub(now), fmt.Sprintf("one IP for all clusters is allocated at %s, when this cluster, which has just joined or whose mcs-controller has just started, "+
			"has surely heard which are in use: nothing has to be done", until.UTC().Format(time.RFC3339))), nil
	}
	var wait time.Duration // until the first address in quarantine is free
	ips, err := clustersetip.NewPool(cidrs).Allocate(key.String(), known.service.Spec.IPFamilies, func(address netip.Addr) bool {
		if c.taken(address, key, known.joinedAt()) {
			return true
		}
		remaining := c.ledger.quarantine.Wait(address, key.String(), now)
		if remaining > 0 && (wait == 0 || remaining < wait) {
			wait = remaining
		}
		return remaining > 0
	})
	var exhausted *clustersetip.ExhaustedError
	switch {
	case errors.As(err, &exhausted) && wait > 0:
		return pending(wait, fmt.Sprintf("one IP for all clusters is allocated within %s: the only ones that are left in %s, this cluster's part, were in use until a moment ago. Nothing has to be done",
			clustersetip.PropagationDelay, exhausted.CIDR)), nil
	case errors.As(err, &exhausted):
		return decision{problem: &export.Problem{Reason: "ClusterSetIPExhausted", Message: fmt.Sprintf(
			"no IP for all clusters is left in %s, this cluster's part: give it a larger one (--clusterset-ip-cidr), or withdraw other exports", exhausted.CIDR)}}, nil
	case err != nil:
		return decision{problem: &export.Problem{Reason: "NoClusterSetIP", Message: fmt.Sprintf(
			"%v: add one of that family to the range of all clusters (--clusterset-ip-range) and to this cluster's part of it (--clusterset-ip-cidr), or ask for none (annotation %s=false)",
			err, multicluster.UseClusterSetIPAnnotation)}}, nil
	}
	for _, ip := range ips {
		c.ledger.reserved[netip.MustParseAddr(ip)] = key
	}
	own := slices.IndexFunc(exports, func(export clustersetip.Export) bool { return export.Cluster == known.self.Status.ClusterID })
	since := clustersetip.Since(exports[own].At, now, c.ledger.waiting.Has(key)) // only who exports allocates
	return decision{held: clustersetip.NewDecision(known.self.Status.ClusterID, ips, since)}, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// cannotAllocate is why a cluster cannot allocate addresses, nil if it can.
func cannotAllocate(self *clustersetv1alpha1.Member) *export.Problem {
	condition := meta.FindStatusCondition(self.Status.Conditions, clusterset.MemberClusterSetIP)
	switch {
	case condition == nil:
		return &export.Problem{Reason: "NoClusterSetIPRange", Message: fmt.Sprintf(
			"the export asks for one IP in all clusters, and this cluster has no part of their addresses: repeat `kubectl mcs join`, which gives it one, "+
				"or claim one (%s), or ask for none (%s=false)", multicluster.ClusterSetIPCIDRClaim, multicluster.UseClusterSetIPAnnotation)}
	case condition.Status != metav1.ConditionTrue:
		return &export.Problem{Reason: "ClusterSetIPRange" + condition.Reason, Message: "the export asks for one IP in all clusters, and none can be allocated: " + condition.Message}
	}
	return nil
}

// taken says whether another service than one holds to an address, in any
// cluster. What this cluster wrote is in its own exports before others tell it
// back, or reserved. The ledger is locked.
func (c *Controller) taken(address netip.Addr, by types.NamespacedName, joinedAt time.Time) bool {
	if holder, reserved := c.ledger.reserved[address]; reserved && holder != by {
		return true
	}
	if c.holders(address.String()).Delete(by).Len() > 0 {
		return true
	}
	own, err := c.own.ByIndex(byIP, address.String())
	return err == nil && slices.ContainsFunc(own, func(object any) bool { // there is such an index
		other := object.(*multiclusterxv1beta1.ServiceExport)
		return (other.Namespace != by.Namespace || other.Name != by.Name) && export.RecordedDecision(other, joinedAt) != nil
	})
}

// exportedIndexers are those of the exports of all clusters.
func exportedIndexers() cache.Indexers {
	return cache.Indexers{byService: indexByService, byIP: indexByIP}
}
