// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// kind is one of the two resources of a feed.
type kind int

const (
	services kind = iota
	endpointSlices
	kinds
)

func (k kind) String() string { return [kinds]string{"exportedservices", "exportedendpointslices"}[k] }

// fact is one object that a member told.
type fact struct {
	kind kind
	// cluster is the one that exports, which need not be the member that told.
	cluster string
	service types.NamespacedName
	name    string
	// object is a *clusterset.ExportedService or a *clusterset.ExportedEndpointSlice.
	object runtime.Object
}

func serviceFact(service *clusterset.ExportedService) fact {
	key := types.NamespacedName{Namespace: service.Namespace, Name: service.Spec.Service}
	return fact{services, service.Spec.Cluster, key, service.Name, service}
}

func sliceFact(slice *clusterset.ExportedEndpointSlice) fact {
	key := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Spec.Service}
	return fact{endpointSlices, slice.Spec.Cluster, key, slice.Name, slice}
}

type objectID struct {
	kind kind
	name string
}

func (f fact) id() objectID { return objectID{f.kind, f.name} }

// location is what an object is told apart by from all others of a cluster.
type location struct {
	kind            kind
	namespace, name string
}

func (f fact) location() location { return location{f.kind, f.service.Namespace, f.name} }

// source is what is known of one cluster's exports.
type source struct {
	facts map[types.NamespacedName]map[objectID]fact
	// services are those that the objects belong to: endpoints may move from
	// one to another.
	services map[location]types.NamespacedName
	// exports and endpoints are counted as facts come and go.
	exports, endpoints int32
}

func (s *source) count(f fact, by int32) {
	switch object := f.object.(type) {
	case *clusterset.ExportedService:
		s.exports += by
	case *clusterset.ExportedEndpointSlice:
		s.endpoints += by * int32(len(object.Spec.Endpoints)) //nolint:gosec // what is taken is bounded
	}
}

// exported is nil while the service itself is not known: its endpoints are
// told separately and may arrive first.
func (s *source) exported(key types.NamespacedName) *clusterset.Export {
	if s == nil {
		return nil
	}
	var exported clusterset.Export
	for _, fact := range s.facts[key] {
		switch object := fact.object.(type) {
		case *clusterset.ExportedService:
			exported.Service = object
		case *clusterset.ExportedEndpointSlice:
			exported.Slices = append(exported.Slices, object)
		}
	}
	if exported.Service == nil {
		return nil
	}
	return &exported
}

// holdings are everything that one member told, by the cluster it is about.
type holdings map[string]*source

// set holds a fact and says whether that changed anything.
func (h holdings) set(f fact) bool {
	held := h[f.cluster]
	if held == nil {
		held = &source{facts: map[types.NamespacedName]map[objectID]fact{}, services: map[location]types.NamespacedName{}}
		h[f.cluster] = held
	}
	if held.facts[f.service] == nil {
		held.facts[f.service] = map[objectID]fact{}
	}
	old, known := held.facts[f.service][f.id()]
	if known && apiequality.Semantic.DeepEqual(old.object, f.object) {
		return false
	}
	if known {
		held.count(old, -1)
	}
	held.count(f, 1)
	held.facts[f.service][f.id()] = f
	held.services[f.location()] = f.service
	return true
}

// find is what is held of the same object, whatever that was about.
func (h holdings) find(f fact) (fact, bool) {
	for _, held := range h {
		if service, ok := held.services[f.location()]; ok {
			return held.facts[service][f.id()], true
		}
	}
	return fact{}, false
}

// remove forgets a fact and says whether it was held.
func (h holdings) remove(f fact) bool {
	held := h[f.cluster]
	if held == nil {
		return false
	}
	old, known := held.facts[f.service][f.id()]
	if !known {
		return false
	}
	held.count(old, -1)
	delete(held.services, f.location())
	delete(held.facts[f.service], f.id())
	if len(held.facts[f.service]) == 0 {
		delete(held.facts, f.service)
	}
	if len(held.facts) == 0 {
		delete(h, f.cluster)
	}
	return true
}

// about lists the facts about one service of a cluster.
func (h holdings) about(cluster string, service types.NamespacedName) []fact {
	held := h[cluster]
	if held == nil {
		return nil
	}
	return slices.Collect(maps.Values(held.facts[service]))
}

// of lists the facts of one kind about one cluster.
func (h holdings) of(cluster string, kind kind) []fact {
	held := h[cluster]
	if held == nil {
		return nil
	}
	var facts []fact
	for _, known := range held.facts {
		for id, fact := range known {
			if id.kind == kind {
				facts = append(facts, fact)
			}
		}
	}
	return facts
}

// clusters are those that something is known of.
func (h holdings) clusters() []string { return slices.Sorted(maps.Keys(h)) }
