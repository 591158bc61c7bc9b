// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// kube-proxy does not use an EndpointSlice that has the label of headless Services. Slices of
// clusters that should not answer are detached with it. Unlike hints, kube-proxy does not fall
// back to them by itself, so that order matters: a slice is attached before those that are used
// lose their endpoints, and it is detached when the cache has shown these.

// isDetached reports whether a slice is detached.
func isDetached(slice *discoveryv1.EndpointSlice) bool {
	_, detached := slice.Labels[multicluster.DetachedLabel]
	return detached
}

// detaches reports whether a slice is to be detached.
func (a *answering) detaches(slice *discoveryv1.EndpointSlice) bool {
	if a == nil || isOfImport(slice) {
		return false
	}
	detachment, active := a.detachment[slice.AddressType]
	if !active {
		return false
	}
	existing := a.existing[slice.Name]
	return detachment.Detaches(slice.Labels[multicluster.SourceClusterLabel], portNames(slice.Ports), existing == nil || isDetached(existing))
}

// label adds the labels of a slice that is to be detached.
func (a *answering) label(slice *discoveryv1.EndpointSlice) {
	if a.detaches(slice) {
		slice.Labels[corev1.IsHeadlessService], slice.Labels[multicluster.DetachedLabel] = "", ""
	}
}

// attachAtOnce is how many slices are attached before those of the cluster that is reconciled are
// written. Others are attached when it is the turn of their cluster.
const attachAtOnce = 16

// decideAndAttach decides which clusters answer for an import. Before endpoints that kube-proxy uses
// are withdrawn, it attaches EndpointSlices, whatever their clusters, until kube-proxy uses as many
// endpoints as a tier needs, at all of its ports. They wait neither for the pace of a cluster nor for
// its turn: until they are attached, there may be nothing that answers. How often a slice can be
// attached is limited by how often it is detached, which waits for both. If nothing is detached, the
// decision about the import is unlocked.
//
// The slices of the key have to wait if some of them were attached, whose events follow, or if the
// cache is outdated. They do not if the host refuses that others are attached.
func (c *Controller) decideAndAttach(
	ctx context.Context, of key, serviceImport *multiclusterxv1beta1.ServiceImport, service *corev1.Service, own plan, unlock func(),
) (answering *answering, wait bool, err error) {
	answering = c.decide(of, serviceImport, service, own)
	existing := c.existingSlices(of.NamespacedName)
	if answering != nil {
		existing = answering.existing
	}
	detached, byCluster := answering != nil && answering.detachment != nil, map[string][]*discoveryv1.EndpointSlice{}
	for _, name := range slices.Sorted(maps.Keys(existing)) {
		if slice := existing[name]; isDetached(slice) {
			detached = true
			if !answering.detaches(slice) {
				cluster := slice.Labels[multicluster.SourceClusterLabel]
				byCluster[cluster] = append(byCluster[cluster], slice)
			}
		}
	}
	switch {
	case !detached:
		unlock()
		return answering, false, nil
	case headless(serviceImport):
		return answering, false, nil // their labels stay
	}
	wait, err = c.attach(ctx, of, service, existing, inTurns(byCluster), answering)
	return answering, wait, err
}

// attach attaches those of the candidates that kube-proxy needs, for decideAndAttach. If endpoints
// that stay do not suffice, others are better than none.
func (c *Controller) attach(
	ctx context.Context, of key, service *corev1.Service, existing map[string]*discoveryv1.EndpointSlice, candidates []*discoveryv1.EndpointSlice, answering *answering,
) (wait bool, err error) {
	var errs []error
	used, changes, tried := answering.used(), map[string][]sliceChange{}, sets.New[string]()
	for _, ready := range []func(*discoveryv1.EndpointSlice) map[string]int{used.staying, present} {
		for _, slice := range candidates {
			if len(errs) == attachAtOnce || tried.Has(slice.Name) || !used.lacks(slice.AddressType, ready(slice)) {
				continue
			}
			tried.Insert(slice.Name)
			cluster := slice.Labels[multicluster.SourceClusterLabel]
			if changes[cluster] == nil {
				changes[cluster] = answering.adapt(cluster, service, existing, false)
			}
			for _, change := range changes[cluster] {
				if change.verb != updateSlice || change.slice.Name != slice.Name {
					continue
				}
				err := c.writeSlice(ctx, change)
				if err == nil {
					used.add(slice)
				}
				errs = append(errs, err)
				wait = wait || cluster == of.cluster || apierrors.IsConflict(err) || apierrors.IsNotFound(err)
			}
		}
	}
	return wait, joinErrors(errs)
}

// inTurns returns slices of all clusters: the first of each, then the second of each, and so on.
func inTurns(byCluster map[string][]*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	var result []*discoveryv1.EndpointSlice
	clusters := slices.Sorted(maps.Keys(byCluster))
	for turn := 0; ; turn++ {
		more := false
		for _, cluster := range clusters {
			if turn < len(byCluster[cluster]) {
				result, more = append(result, byCluster[cluster][turn]), true
			}
		}
		if !more {
			return result
		}
	}
}

// used are the endpoints that kube-proxy uses, and goes on using, and which stay ready, by IP family
// and port.
type used struct {
	*answering
	ready   map[discoveryv1.AddressType]map[string]int
	planned map[discoveryv1.AddressType]map[sliceSource]map[string]int
}

// used returns the endpoints that kube-proxy uses.
func (a *answering) used() used {
	result := used{answering: a, ready: map[discoveryv1.AddressType]map[string]int{}, planned: map[discoveryv1.AddressType]map[sliceSource]map[string]int{}}
	if a == nil {
		return result
	}
	if a.detachment != nil {
		for family := range a.planned {
			result.ready[family], result.planned[family] = map[string]int{}, a.planned[family].bySource()
		}
	}
	for _, slice := range a.existing {
		if !isDetached(slice) && !a.detaches(slice) {
			result.add(slice)
		}
	}
	return result
}

// present returns how many endpoints of a slice are ready, by port.
func present(slice *discoveryv1.EndpointSlice) map[string]int {
	counts, present := map[string]int{}, presentIn(slice)
	for _, port := range present.ports {
		counts[port] = len(present.addresses)
	}
	return counts
}

// staying returns how many endpoints of a slice are ready before and after it is written, by port.
func (u used) staying(slice *discoveryv1.EndpointSlice) map[string]int {
	counts, source := present(slice), presentIn(slice).sliceSource
	for port, count := range counts {
		counts[port] = min(count, u.planned[slice.AddressType][source][port])
	}
	return counts
}

func (u used) add(slice *discoveryv1.EndpointSlice) {
	ready := u.ready[slice.AddressType]
	if ready == nil {
		return
	}
	for port, count := range u.staying(slice) {
		ready[port] += count
	}
}

// lacks reports whether kube-proxy uses fewer endpoints than a tier needs, at a port at which some
// are ready. Where slices are not detached any more, it lacks all.
func (u used) lacks(family discoveryv1.AddressType, ready map[string]int) bool {
	if u.ready[family] == nil {
		return true
	}
	for port, count := range ready {
		if count > 0 && u.ready[family][port] < max(1, u.minReady) {
			return true
		}
	}
	return false
}

// adapt returns the changes of EndpointSlices of a cluster that are otherwise left as they are:
// their hints, and the labels by which kube-proxy does not use them. With all, labels of headless
// Services are removed as well.
func (a *answering) adapt(cluster string, service *corev1.Service, existing map[string]*discoveryv1.EndpointSlice, all bool) []sliceChange {
	desired, byForm := map[string]*discoveryv1.EndpointSlice{}, map[form][]hinting{}
	for _, name := range slices.Sorted(maps.Keys(existing)) {
		if isOfAnother(existing[name], cluster) {
			continue
		}
		slice := existing[name].DeepCopy()
		if !isOfImport(slice) && (all || isDetached(slice)) {
			delete(slice.Labels, corev1.IsHeadlessService)
		}
		delete(slice.Labels, multicluster.DetachedLabel)
		a.label(slice)
		for i := range slice.Endpoints {
			if !a.hints(slice.AddressType) {
				slice.Endpoints[i].Hints = hints(service.Spec.TrafficDistribution, slice.Endpoints[i])
			}
		}
		desired[name] = slice
		of := formOf(name)
		base, _ := splitName(name)
		byForm[of] = append(byForm[of], hinting{base, slice.AddressType, slice.Ports, slice.Endpoints})
	}
	for _, of := range allForms { // which have the same endpoints
		a.hint(cluster, service.Spec.TrafficDistribution, byForm[of], existing)
	}
	return sliceChanges(cluster, desired, existing)
}
