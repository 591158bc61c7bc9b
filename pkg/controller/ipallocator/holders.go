// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ipallocator

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
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

// nameOf identifies an ExportedService.
func nameOf(object any) string {
	if exported, ok := object.(*clustersetv1alpha1.ExportedService); ok {
		return exported.Namespace + "/" + exported.Name
	}
	return ""
}

// ObserveExported records the addresses of an ExportedService that was added,
// updated or deleted; old or object is nil accordingly. The address of a deleted
// export becomes available only through this call: the cache shows the deletion
// a little earlier. It does not depend on how many services hold an address.
func (a *Allocator) ObserveExported(old, object any) {
	before, after := addressesOf(old), addressesOf(object)
	if len(after) > 0 && !a.holds(object, a.allocations()) { // few services have an address
		after = nil
	}
	for address, service := range after {
		a.reservations.hold(address, service, nameOf(object))
	}
	for address, service := range before {
		if _, held := after[address]; !held && a.reservations.unhold(address, service, nameOf(old), a.clock.Now()) {
			a.RequeueWaiting()
		}
	}
	if !sameDecision(old, object) {
		a.reconsider(old, object)
	}
}

// reconsider requeues the exports of this cluster whose decision may stand or be void
// because another export has another decision than before.
func (a *Allocator) reconsider(old, object any) {
	for _, state := range []any{old, object} {
		for address := range addressesOf(state) {
			for _, own := range a.recorded(address.String()) {
				a.requeue(serviceOf(own))
			}
		}
	}
	if len(addressesOf(old)) > 0 {
		a.RequeueWaiting() // what it claimed may belong to a service that waits
	}
}

// MembersChanged releases the addresses of decisions that are not believed any longer,
// because the allocation CIDRs of members changed, and requeues all exports that wait for
// something. It looks at everything that holds an address: call it only if there is no
// [SameAllocation].
func (a *Allocator) MembersChanged() {
	allocations := a.allocations()
	for _, name := range a.reservations.holders() {
		if object, exists, err := a.exported.GetByKey(name); err == nil && exists && !a.holds(object, allocations) {
			a.ObserveExported(object, object)
		}
	}
	a.RequeueWaiting()
}

// sameDecision reports whether two ExportedServices have the same decision. Either may
// be nil.
func sameDecision(old, object any) bool {
	before, had := old.(*clustersetv1alpha1.ExportedService)
	after, has := object.(*clustersetv1alpha1.ExportedService)
	return had && has && apiequality.Semantic.DeepEqual(before.Spec.ClusterSetIP, after.Spec.ClusterSetIP)
}

// holds reports whether an ExportedService keeps its addresses from other services: a
// member cannot block addresses by decisions that are not believed.
func (a *Allocator) holds(object any, allocations clustersetip.Allocations) bool {
	exported, ok := object.(*clustersetv1alpha1.ExportedService)
	if !ok || exported.Spec.ClusterSetIP == nil {
		return false
	}
	local := clustersetip.NewLocal("", a.derived(serviceOf(exported)), allocations, a.clock.Now())
	return local.Holds(merge.FromV1alpha1(exported).IP)
}

// ObserveOwn records the addresses that a ServiceExport of this cluster gave up:
// the feed may never have shown that it held them.
func (a *Allocator) ObserveOwn(old, object any) {
	current := addressesOf(object)
	for address, service := range addressesOf(old) {
		if _, held := current[address]; !held && a.reservations.quarantineAddress(address, service, a.clock.Now()) {
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

// recorded returns the ServiceExports of this cluster that recorded an address.
func (a *Allocator) recorded(ip string) []any {
	objects, err := a.own.ByIndex(byIP, ip)
	if err != nil {
		return nil // unreachable: the index exists
	}
	return objects
}

// shown returns the ExportedServices of all clusters that have an address.
func (a *Allocator) shown(ip string) []any {
	objects, err := a.exported.ByIndex(byIP, ip)
	if err != nil {
		return nil // unreachable: the index exists
	}
	return objects
}

// inUseLocked reports whether a service other than the given one holds an address
// in any cluster. An address that this cluster allocated is reserved, and recorded
// in its own export, before the feed shows it. The caller holds the lock of the
// reservations.
func (a *Allocator) inUseLocked(address netip.Addr, service types.NamespacedName, joinedAt time.Time, localTo localTo) bool {
	if holder, reserved := a.reservations.reserved[address]; reserved && holder != service {
		return true
	}
	return slices.ContainsFunc(a.shown(address.String()), func(object any) bool {
		return serviceOf(object) != service && localTo(serviceOf(object)).Holds(merge.FromV1alpha1(object.(*clustersetv1alpha1.ExportedService)).IP)
	}) || slices.ContainsFunc(a.recorded(address.String()), func(object any) bool {
		return serviceOf(object) != service && export.RecordedDecision(object.(*multiclusterxv1beta1.ServiceExport), joinedAt) != nil
	})
}

// localTo returns what this cluster knows about a service besides its exports.
type localTo func(types.NamespacedName) clustersetip.Local

// standing returns the exports of a service without the decisions that are void
// because another service has a better claim to one of their addresses. Usually
// no address is contested, and the exports are returned as they are.
func (a *Allocator) standing(key types.NamespacedName, exports []clustersetip.Export, localTo localTo) []clustersetip.Export {
	local := localTo(key)
	exports = a.withoutReserved(key, exports, local.Cluster)
	if !slices.ContainsFunc(ipsOf(exports), func(ip string) bool { return a.contested(ip, key, local.Recorded(exports)) }) {
		return exports
	}
	found := a.claimants(key, exports, local.Cluster)
	claims := clustersetip.NewClaims(found.services, func(service string) clustersetip.Local { return localTo(found.keys[service]) })
	return claims.Standing(key.String(), exports)
}

// withoutReserved returns the exports of a service without the decisions of other
// clusters for an address that this cluster has allocated to another service: its own
// feed may not show that yet.
func (a *Allocator) withoutReserved(key types.NamespacedName, exports []clustersetip.Export, self string) []clustersetip.Export {
	exports = slices.Clone(exports)
	for i, export := range exports {
		if export.Cluster != self && slices.ContainsFunc(ipsOf(exports[i:i+1]), func(ip string) bool { return a.reservations.reservedForOther(ip, key) }) {
			exports[i].Decision = nil
		}
	}
	return exports
}

// contested reports whether another service may have a better claim to an address. If
// this cluster recorded its decision long ago, only another record of this cluster has
// one.
func (a *Allocator) contested(ip string, key types.NamespacedName, recorded bool) bool {
	other := func(object any) bool { return serviceOf(object) != key }
	return slices.ContainsFunc(a.recorded(ip), other) || !recorded && slices.ContainsFunc(a.shown(ip), other)
}

// claimants are the exports of services that have claims to the same addresses.
type claimants struct {
	// services are the exports by service, and keys the services by their text.
	services map[string][]clustersetip.Export
	keys     map[string]types.NamespacedName
	// added are the names of the ExportedServices.
	added sets.Set[string]
}

// claimants returns the exports of a service, and those with claims to one of its
// addresses, or to one of the addresses of those. For each service, the export of this
// cluster is among them.
func (a *Allocator) claimants(key types.NamespacedName, exports []clustersetip.Export, self string) claimants {
	found := claimants{
		services: map[string][]clustersetip.Export{key.String(): exports}, keys: map[string]types.NamespacedName{key.String(): key}, added: sets.New[string](),
	}
	seen := sets.New[string]()
	for next := ipsOf(exports); len(next) > 0; next = next[1:] {
		if ip := next[0]; !seen.Has(ip) {
			seen.Insert(ip)
			for _, object := range a.shown(ip) {
				service := serviceOf(object)
				if service == key {
					continue // its exports are given
				}
				next = append(next, found.add(object)...)
				if own, exists, err := a.exported.GetByKey(service.Namespace + "/" + clusterset.ObjectName(service.Name, self)); err == nil && exists {
					next = append(next, found.add(own)...)
				}
			}
		}
	}
	return found
}

// add adds an ExportedService, unless it was added before, and returns its addresses.
func (c claimants) add(object any) []string {
	if c.added.Has(nameOf(object)) {
		return nil
	}
	c.added.Insert(nameOf(object))
	key, claim := serviceOf(object).String(), merge.FromV1alpha1(object.(*clustersetv1alpha1.ExportedService)).IP
	c.keys[key], c.services[key] = serviceOf(object), append(c.services[key], claim)
	return ipsOf([]clustersetip.Export{claim})
}

// ipsOf returns the addresses of all decisions.
func ipsOf(exports []clustersetip.Export) (ips []string) {
	for _, export := range exports {
		if export.Decision != nil {
			ips = append(ips, export.Decision.IPs...)
		}
	}
	return ips
}
