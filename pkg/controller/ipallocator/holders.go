// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ipallocator

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/export"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
)

// byIP indexes the ExportedServices of all clusters and the ServiceExports of
// this cluster by the addresses of their decisions.
const byIP = "exportsByClusterSetIP"

// Indexers returns the indexers that both caches of an allocator need.
func Indexers() cache.Indexers { return cache.Indexers{byIP: indexByIP} }

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
	return nil, fmt.Errorf("unexpected type %T, want ExportedService or ServiceExport", object)
}

// serviceOf returns the service that an export of any cluster belongs to.
func serviceOf(object any) types.NamespacedName {
	switch object := object.(type) {
	case *clustersetv1alpha1.ExportedService:
		return types.NamespacedName{Namespace: object.Namespace, Name: object.Spec.Service}
	case *multiclusterxv1beta1.ServiceExport:
		return types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	}
	return types.NamespacedName{}
}

// ObserveExported records the addresses of an ExportedService that was added,
// updated or deleted; old or object is nil accordingly. The address of a deleted
// export becomes available only through this call: the cache shows the deletion
// a little earlier.
func (a *Allocator) ObserveExported(old, object any) {
	for address, service := range addressesOf(object) {
		a.reservations.hold(address, service)
	}
	a.quarantineReleased(old, object)
	for _, state := range []any{old, object} {
		if exported, ok := state.(*clustersetv1alpha1.ExportedService); ok && exported.Spec.ClusterSetIP != nil {
			for _, ip := range exported.Spec.ClusterSetIP.IPs {
				for holder := range a.holders(ip) { // whether its decision stands may have changed
					a.requeue(holder)
				}
			}
		}
	}
}

// ObserveOwn records the addresses that a ServiceExport of this cluster gave up:
// the feed may never have shown that it held them.
func (a *Allocator) ObserveOwn(old, object any) { a.quarantineReleased(old, object) }

// quarantineReleased quarantines the addresses that an export held until now and
// that no export holds any longer, and requeues the exports that may be waiting
// for them.
func (a *Allocator) quarantineReleased(old, object any) {
	current := addressesOf(object)
	for address, service := range addressesOf(old) {
		if _, held := current[address]; !held && a.holders(address.String()).Len() == 0 {
			a.reservations.quarantineAddress(address, service, a.clock.Now())
			a.RequeueWaiting()
		}
	}
}

// addressesOf returns the addresses that an export of any cluster holds, with
// its service. It returns none for nil.
func addressesOf(object any) map[netip.Addr]types.NamespacedName {
	ips, err := indexByIP(object)
	if err != nil {
		return nil
	}
	held := map[netip.Addr]types.NamespacedName{}
	for _, ip := range ips {
		if address, err := netip.ParseAddr(ip); err == nil {
			held[address] = serviceOf(object)
		}
	}
	return held
}

// holders returns the services that hold an address in any cluster.
func (a *Allocator) holders(ip string) sets.Set[types.NamespacedName] {
	return a.believedHolders(ip, nil)
}

// believedHolders returns the services that hold an address in any cluster by a
// decision that is believed.
func (a *Allocator) believedHolders(ip string, allocations clustersetip.Allocations) sets.Set[types.NamespacedName] {
	holders := sets.New[types.NamespacedName]()
	objects, err := a.exported.ByIndex(byIP, ip)
	if err != nil {
		return holders // unreachable: the index exists
	}
	for _, object := range objects {
		if allocations.Believes(merge.FromV1alpha1(object.(*clustersetv1alpha1.ExportedService)).IP.Decision) {
			holders.Insert(serviceOf(object))
		}
	}
	return holders
}

// inUseLocked reports whether a service other than the given one holds an address
// in any cluster. An address that this cluster allocated is reserved, and recorded
// in its own export, before the feed shows it. A member cannot block the addresses of
// others by decisions that are not believed. The caller holds the lock of the
// reservations.
func (a *Allocator) inUseLocked(address netip.Addr, service types.NamespacedName, joinedAt time.Time, allocations clustersetip.Allocations) bool {
	if holder, reserved := a.reservations.reserved[address]; reserved && holder != service {
		return true
	}
	if a.believedHolders(address.String(), allocations).Delete(service).Len() > 0 {
		return true
	}
	own, err := a.own.ByIndex(byIP, address.String())
	return err == nil && slices.ContainsFunc(own, func(object any) bool {
		return serviceOf(object) != service && export.RecordedDecision(object.(*multiclusterxv1beta1.ServiceExport), joinedAt) != nil
	})
}

// standing returns the exports of a service without the decisions that are void
// because another service has a better claim to one of their addresses. Usually
// no address is contested, and the exports are returned as they are. localTo
// returns what this cluster knows about a service besides its exports.
func (a *Allocator) standing(key types.NamespacedName, exports []clustersetip.Export, localTo func(types.NamespacedName) clustersetip.Local) []clustersetip.Export {
	contested := slices.ContainsFunc(exports, func(export clustersetip.Export) bool {
		return export.Decision != nil && slices.ContainsFunc(export.Decision.IPs, func(ip string) bool { return a.holders(ip).Len() > 1 })
	})
	if !contested {
		return exports
	}
	services, keys := map[string][]clustersetip.Export{}, map[string]types.NamespacedName{}
	for _, object := range a.exported.List() {
		service := serviceOf(object)
		keys[service.String()] = service
		services[service.String()] = append(services[service.String()], merge.FromV1alpha1(object.(*clustersetv1alpha1.ExportedService)).IP)
	}
	claims := clustersetip.NewClaims(services, func(service string) clustersetip.Local { return localTo(keys[service]) })
	return claims.Standing(key.String(), exports)
}
