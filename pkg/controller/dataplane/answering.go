// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/merge"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/preference"
)

// answering is which clusters answer for an import, as it was decided. If it is nil, all do.
type answering struct {
	// of is the cluster that is reconciled.
	of string
	// zones are those for which endpoints are hinted. There are none if slices are detached.
	zones []string
	// inTier reports whether a cluster is in the tier that is active for an IP family. Families
	// for which all clusters answer are absent.
	inTier map[discoveryv1.AddressType]func(cluster string) bool
	// detachment is nil if endpoints are hinted.
	detachment map[discoveryv1.AddressType]preference.Detachment
	// existing are the slices that the decision is about, and planned what they are going to have.
	existing map[string]*discoveryv1.EndpointSlice
	planned  map[discoveryv1.AddressType]readySlices
	minReady int
	// hinted is whether hints of the cluster that is reconciled were computed, and uncovered are
	// zones for which no ready endpoint of it is hinted, by IP family. Families in which it is not
	// in the tier, or has none, are absent.
	hinted    bool
	uncovered map[discoveryv1.AddressType][]string
	// renoted is whether the derived Service has to be annotated, and changed whether another tier
	// is active than before, on which everything of the import depends.
	renoted, changed bool
}

// enqueueAffected enqueues what follows from a decision about an import. That is done when the
// endpoints are written because of which it was made: writes for other clusters must not delay them.
func (c *Controller) enqueueAffected(by key, answering *answering) {
	switch {
	case answering == nil:
	case answering.changed:
		c.enqueueAll(by.NamespacedName)
	case answering.renoted:
		c.queue.Add(ofService(by.NamespacedName))
	}
}

// decide decides which clusters answer for an import, nil if the import prefers none, or that is
// not possible. What follows from that is to be enqueued.
// The decision about the import is locked.
func (c *Controller) decide(key key, serviceImport *multiclusterxv1beta1.ServiceImport, service *corev1.Service, own plan) *answering {
	wanted := preferred(serviceImport)
	zones := c.zones()
	method, _ := c.method.In(zones)
	if wanted == nil || method == "" { // the derived Service says why
		c.tiers.forget(key.NamespacedName)
		return nil
	}
	clusters, now := c.tiers.clusters(), c.clock.Now()
	result := &answering{
		of: key.cluster, inTier: map[discoveryv1.AddressType]func(string) bool{}, uncovered: map[discoveryv1.AddressType][]string{},
		existing: c.existingSlices(key.NamespacedName), minReady: int(wanted.MinReady),
	}
	result.planned = c.plannedEndpoints(key, serviceImport, service, result.existing, own)
	switch method {
	case preference.Hints:
		result.zones = zones.Names
	default:
		result.detachment = map[discoveryv1.AddressType]preference.Detachment{}
	}
	for _, family := range sliceFamilies {
		of := tierKey{key.NamespacedName, family}
		if !hasFamily(serviceImport.Spec.IPFamilies, family) || !hasFamily(service.Spec.IPFamilies, family) {
			c.tiers.setState(of, preference.State{})
			continue
		}
		before := c.tiers.state(of)
		if before.Active == "" {
			before.Active = annotatedTier(service, family) // as an earlier leader decided
		}
		state, wait := preference.Decide(*wanted, clusters, result.planned[family].counts(), before, now)
		if before.Active != state.Active {
			result.renoted = true
			result.changed = result.changed || before.Active != ""
			measureChange(*wanted, before.Active, state.Active)
		}
		if state.Active != clusterpreference.All {
			inTier := func(cluster string) bool { return clusters.In(state.Active, cluster) }
			result.inTier[family] = inTier
			if result.detachment != nil {
				present := presentEndpoints(result.existing, family, func(string) bool { return true })
				detachment := preference.NewDetachment(inTier, wanted.MinReady, present.ports(), present.stay(result.planned[family]), state.Lacked, now)
				lacked, remaining := detachment.Lacked(now)
				result.changed = result.changed || len(lacked) < len(state.Lacked) // what was held may be detached
				result.detachment[family], state.Lacked = detachment, lacked
				if remaining > 0 && (wait == 0 || remaining < wait) {
					wait = remaining
				}
			}
		}
		c.tiers.setState(of, state)
		if wait > 0 {
			c.queue.AddAfter(key, wait)
		}
	}
	return result
}

// plan is what is going to be imported from a cluster.
type plan struct {
	// exporter is nil if nothing is.
	exporter *exporter
	// left is whether what is imported stays as it is.
	left bool
}

// planOf returns what is going to be imported from a cluster when that is reconciled.
func (c *Controller) planOf(source key, serviceImport *multiclusterxv1beta1.ServiceImport) plan {
	exporter, err := c.exporter(source)
	verdict := c.verdict(source)
	switch {
	case err != nil:
		return plan{} // unreachable: the index exists
	case c.isOutdated(source.cluster), retained(serviceImport) && c.isUnread(source.cluster), verdict == leaveEndpoints && exporter != nil:
		return plan{left: true}
	case verdict == withdrawEndpoints:
		return plan{}
	}
	return plan{exporter: exporter}
}

// readySlice has the ready endpoints of a slice.
type readySlice struct {
	sliceSource
	addresses []string
	ports     []string
}

// sliceSource is what a slice is imported from: a slice of a cluster, which is named as the first
// that is imported of it.
type sliceSource struct{ cluster, base string }

// readySlices are those of one IP family that have ready endpoints at some port.
type readySlices []readySlice

func (r readySlices) add(slice readySlice) readySlices {
	if len(slice.addresses) == 0 || len(slice.ports) == 0 {
		return r
	}
	return append(r, slice)
}

// counts returns how many endpoints are ready, by cluster. One that is in several slices counts once.
func (r readySlices) counts() map[string]int {
	byCluster := map[string][][]string{}
	for _, slice := range r {
		byCluster[slice.cluster] = append(byCluster[slice.cluster], slice.addresses)
	}
	counts := map[string]int{}
	for cluster, addresses := range byCluster {
		if len(addresses) == 1 {
			counts[cluster] = len(addresses[0])
			continue
		}
		counts[cluster] = sets.New(slices.Concat(addresses...)...).Len()
	}
	return counts
}

// bySource returns how many endpoints are ready, by source and port.
func (r readySlices) bySource() map[sliceSource]map[string]int {
	counts := map[sliceSource]map[string]int{}
	for _, slice := range r {
		if counts[slice.sliceSource] == nil {
			counts[slice.sliceSource] = map[string]int{}
		}
		for _, port := range slice.ports {
			counts[slice.sliceSource][port] += len(slice.addresses)
		}
	}
	return counts
}

// stay returns how many endpoints are ready at any time until these slices are as planned, by
// cluster and port: of each slice, the fewer before and after it is written. Slices are written one
// after the other.
func (r readySlices) stay(planned readySlices) map[string]map[string]int {
	counts, after := map[string]map[string]int{}, planned.bySource()
	for source, ports := range r.bySource() {
		if counts[source.cluster] == nil {
			counts[source.cluster] = map[string]int{}
		}
		for port, count := range ports {
			counts[source.cluster][port] += min(count, after[source][port])
		}
	}
	return counts
}

// ports returns the names of all ports.
func (r readySlices) ports() []string {
	ports := sets.New[string]()
	for _, slice := range r {
		ports.Insert(slice.ports...)
	}
	return sets.List(ports)
}

// presentEndpoints returns the ready endpoints in existing slices which kube-proxy uses, or would
// use unless they were detached, of the given clusters.
func presentEndpoints(existing map[string]*discoveryv1.EndpointSlice, family discoveryv1.AddressType, of func(cluster string) bool) readySlices {
	var ready readySlices
	for _, slice := range existing {
		if slice.AddressType == family && of(slice.Labels[multicluster.SourceClusterLabel]) {
			ready = ready.add(presentIn(slice))
		}
	}
	return ready
}

// presentIn returns the ready endpoints in a slice which kube-proxy uses, or would use unless it was
// detached.
func presentIn(slice *discoveryv1.EndpointSlice) readySlice {
	if isOfImport(slice) || slice.DeletionTimestamp != nil {
		return readySlice{}
	}
	base, _ := splitName(slice.Name)
	ready := readySlice{sliceSource: sliceSource{slice.Labels[multicluster.SourceClusterLabel], base}, ports: portNames(slice.Ports)}
	for _, endpoint := range slice.Endpoints {
		if preference.IsReady(endpoint) {
			ready.addresses = append(ready.addresses, endpoint.Addresses[0])
		}
	}
	return ready
}

// plannedEndpoints returns the ready endpoints that are imported for an import, or are going to
// be, by IP family, given the plan for the cluster that is reconciled.
func (c *Controller) plannedEndpoints(
	of key, serviceImport *multiclusterxv1beta1.ServiceImport, service *corev1.Service, existing map[string]*discoveryv1.EndpointSlice, own plan,
) map[discoveryv1.AddressType]readySlices {
	plans, byBase := map[string]plan{of.cluster: own}, chunksByBase(existing)
	for cluster := range c.sources(of.NamespacedName) {
		if cluster != of.cluster {
			plans[cluster] = c.planOf(key{of.NamespacedName, cluster}, serviceImport)
		}
	}
	planned := map[discoveryv1.AddressType]readySlices{}
	for _, family := range sliceFamilies {
		planned[family] = presentEndpoints(existing, family, func(cluster string) bool { return plans[cluster].left })
	}
	for cluster, plan := range plans {
		if plan.left || plan.exporter == nil {
			continue
		}
		served := merge.NewServed(plan.exporter.service.Spec.Ports)
		for _, slice := range plan.exporter.slices {
			if family := slice.Spec.AddressType; isImported(serviceImport, service, slice) {
				planned[family] = planned[family].add(readySlice{
					sliceSource{cluster, baseName(service.Name, slice, byBase)}, readyAddresses(plan.exporter.own(), slice),
					portNames(slicePorts(serviceImport.Spec.Ports, served, slice.Spec.Ports)),
				})
			}
		}
	}
	return planned
}

// readyAddresses returns the addresses of the ready endpoints of a slice that are imported.
func readyAddresses(own bool, source *clustersetv1alpha1.ExportedEndpointSlice) []string {
	var ready []string
	for _, endpoint := range source.Spec.Endpoints {
		if !preference.IsReady(endpoint) {
			continue
		}
		if i := slices.IndexFunc(endpoint.Addresses, func(address string) bool { return own || validation.IsEndpointAddress(address) }); i >= 0 {
			ready = append(ready, endpoint.Addresses[i])
		}
	}
	return ready
}

// hints reports whether the endpoints of an IP family are hinted.
func (a *answering) hints(family discoveryv1.AddressType) bool {
	return a != nil && a.detachment == nil && a.inTier[family] != nil
}

// hinting are endpoints of one cluster and IP family that serve the same ports.
type hinting struct {
	// base identifies the slice of the cluster that they are in.
	base      string
	family    discoveryv1.AddressType
	ports     []discoveryv1.EndpointPort
	endpoints []discoveryv1.Endpoint
}

// hint replaces the hints of endpoints of a cluster, for the IP families for which not all
// clusters answer. existing are the slices that are imported.
func (a *answering) hint(cluster string, distribution *string, all []hinting, existing map[string]*discoveryv1.EndpointSlice) {
	if a == nil || a.detachment != nil {
		return // nothing is hinted
	}
	type place struct{ base, address string }
	present := map[place]*discoveryv1.EndpointHints{}
	for name, slice := range existing {
		base, _ := splitName(name)
		for _, endpoint := range slice.Endpoints {
			present[place{base, endpoint.Addresses[0]}] = endpoint.Hints
		}
	}
	if a.of == cluster {
		a.hinted = true
	}
	for _, family := range sliceFamilies {
		if !a.hints(family) {
			continue
		}
		var endpoints []preference.Endpoint
		var targets []*discoveryv1.Endpoint
		covers := false
		for _, one := range all {
			if one.family != family {
				continue
			}
			for i := range one.endpoints {
				endpoint := one.endpoints[i]
				endpoint.Hints = present[place{one.base, endpoint.Addresses[0]}]
				endpoints = append(endpoints, preference.Endpoint{Cluster: cluster, Ports: strings.Join(portNames(one.ports), ","), Endpoint: endpoint})
				targets = append(targets, &one.endpoints[i])
				covers = covers || len(one.ports) > 0 && preference.IsReady(endpoint)
			}
		}
		hinted := preference.HintsFor(a.inTier[family], a.zones, ptr.Deref(distribution, ""), endpoints)
		for i, target := range targets {
			target.Hints = hinted.Hints[i]
		}
		if covers && a.of == cluster && a.inTier[family](cluster) {
			a.uncovered[family] = hinted.Uncovered
		}
	}
}

// hintImported replaces the hints of imported endpoints of a cluster.
func (a *answering) hintImported(cluster string, distribution *string, imported []importedSource, existing map[string]*discoveryv1.EndpointSlice) {
	sorted := slices.SortedFunc(slices.Values(imported), func(a, b importedSource) int { return cmp.Compare(a.source.Name, b.source.Name) })
	var all []hinting
	for _, one := range sorted {
		all = append(all, hinting{one.base, one.source.Spec.AddressType, one.ports, one.endpoints})
	}
	a.hint(cluster, distribution, all, existing)
}

// portNames returns the names of ports.
func portNames(ports []discoveryv1.EndpointPort) []string {
	names := make([]string, 0, len(ports))
	for _, port := range ports {
		names = append(names, ptr.Deref(port.Name, ""))
	}
	return names
}
