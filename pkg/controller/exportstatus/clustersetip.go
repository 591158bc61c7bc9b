// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exportstatus

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
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

// sameTime is how long after another an export may be made and still be made at
// the same time: until then they may not have heard of each other.
const sameTime = time.Minute

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

// ledger knows the addresses that this process allocated, for as long as the
// exports hold to them, since caches may not show them yet; and the exports that
// wait for something.
type ledger struct {
	mu       sync.Mutex
	reserved map[netip.Addr]types.NamespacedName
	waiting  sets.Set[types.NamespacedName]
}

func newLedger() *ledger {
	return &ledger{reserved: map[netip.Addr]types.NamespacedName{}, waiting: sets.New[types.NamespacedName]()}
}

// wait remembers that an export has to be looked at when a member changes.
func (l *ledger) wait(key types.NamespacedName, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if waits {
		l.waiting.Insert(key)
	} else {
		l.waiting.Delete(key)
	}
}

func (l *ledger) all() []types.NamespacedName {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting.UnsortedList()
}

// release gives back what was reserved for an export that holds to something
// else, or is gone.
func (l *ledger) release(key types.NamespacedName, but []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := sets.New(but...)
	for address, holder := range l.reserved {
		if holder == key && !kept.Has(address.String()) {
			delete(l.reserved, address)
		}
	}
}

// decision is what an export should hold to: what it holds to now, if nothing
// else is decided. A problem is why this cluster cannot allocate, although it
// should; wait is when to look again, if it has to wait for another cluster.
type decision struct {
	held    *clusterset.ClusterSetIPDecision
	problem *export.Problem
	wait    time.Duration
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
	var exports []clustersetip.Export
	for _, exported := range known.exported {
		told := merge.FromV1alpha1(exported).IP
		if told.Cluster == known.self.Status.ClusterID && told.Decision == nil {
			told.Decision = export.Decision(serviceExport, known.joinedAt()) // written a moment ago
		}
		exports = append(exports, told)
	}
	exports = c.standing(key, exports)
	settled, wait := settled(known.members, c.clock.Now())
	verdict := clustersetip.Decide(known.self.Status.ClusterID, exports, settled)
	switch {
	case verdict.Record != nil:
		return decision{held: verdict.Record}, nil
	case verdict.Allocate:
		return c.allocate(key, known, exports)
	}
	return decision{wait: wait}, nil
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

// settled says whether every member has been heard, as far as it can be, and if
// not, when to look again at the latest. What an unreachable member exported is
// remembered, unless it has never been heard.
func settled(members []*clustersetv1alpha1.Member, now time.Time) (bool, time.Duration) {
	for _, member := range members {
		age := now.Sub(member.CreationTimestamp.Time)
		ttl := time.Duration(member.Status.TTLSeconds) * time.Second
		switch member.Status.State {
		case clustersetv1alpha1.MemberConnecting:
			if age < ttl {
				return false, ttl - age
			}
		case clustersetv1alpha1.MemberConnected:
			if !member.Status.Synced {
				return false, ttl
			}
		}
	}
	return true, 0
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
	ips, err := clustersetip.NewPool(cidrs).Allocate(key.String(), known.service.Spec.IPFamilies, func(address netip.Addr) bool {
		return c.taken(address, key, known.joinedAt())
	})
	var exhausted *clustersetip.ExhaustedError
	switch {
	case errors.As(err, &exhausted):
		return decision{problem: &export.Problem{Reason: "ClusterSetIPExhausted", Message: fmt.Sprintf(
			"no IP for all clusters is left in %s, this cluster's part: give it a larger one (--clusterset-ip-cidr), or withdraw other exports", exhausted.CIDR)}}, nil
	case err != nil:
		return decision{problem: &export.Problem{Reason: "NoClusterSetIP", Message: err.Error()}}, nil
	}
	for _, ip := range ips {
		c.ledger.reserved[netip.MustParseAddr(ip)] = key
	}
	return decision{held: clustersetip.NewDecision(known.self.Status.ClusterID, ips, c.ledger.since(key, known.self.Status.ClusterID, exports, c.clock.Now()))}, nil
}

// since is the age of a decision that is made now: that of the export, so that of
// two that are made at the same time the older export's stands; but not if it had
// to wait for an address, while others may have come to hold to something else.
// The ledger is locked.
func (l *ledger) since(key types.NamespacedName, self string, exports []clustersetip.Export, now time.Time) time.Time {
	for _, own := range exports {
		if own.Cluster == self && now.Sub(own.At) < sameTime && !l.waiting.Has(key) {
			return own.At
		}
	}
	return now
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
		return (other.Namespace != by.Namespace || other.Name != by.Name) && export.Decision(other, joinedAt) != nil
	})
}

// exportedIndexers are those of the exports of all clusters.
func exportedIndexers() cache.Indexers {
	return cache.Indexers{byService: indexByService, byIP: indexByIP}
}
