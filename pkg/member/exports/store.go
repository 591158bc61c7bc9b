// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// Store holds the objects of one member, by exporting cluster. It does no
// locking. Methods that return an Update only read; Apply is the only one that
// writes, so a long computation can run outside of the lock that readers need.
type Store struct {
	clusters map[string]*cluster
	// refs tell what an object belongs to: a slice may move to another Service,
	// and the same object to another cluster.
	refs map[Key]Ref
	// unconfirmed is the number of unconfirmed objects of all clusters: a hub may
	// have many, and the number is needed for every object that changes.
	unconfirmed int
	// usage is what the objects take.
	usage Usage
}

// Ref is a Service of one cluster.
type Ref struct {
	Cluster string
	Service types.NamespacedName
}

// cluster holds the exports of one cluster.
type cluster struct {
	services map[types.NamespacedName]*exported
	// counts are counted as objects come and go.
	counts *Counts
	// unconfirmed are the objects that an empty list did not contain, until the
	// member confirms that they are gone.
	unconfirmed [Kinds]map[Key]struct{}
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{clusters: map[string]*cluster{}, refs: map[Key]Ref{}} }

// Restore returns a store with objects that were admitted before a restart, as
// far as the policy still allows them and they fit into its limits.
func Restore(objects []Object, policy Policy) *Store {
	s := NewStore()
	var update Update
	for _, object := range objects {
		if retained, ok := policy.Retain(object); ok {
			update.set = append(update.set, retained)
		}
	}
	s.Apply(s.Fit(update, policy.Limits))
	return s
}

// Recover returns the update that adds objects that were admitted before a restart and are
// not held, or hold fewer endpoints: of a slice that is imported in several, not all may have
// been imported yet.
func (s *Store) Recover(objects []Object, policy Policy) Update {
	var update Update
	for _, object := range objects {
		retained, ok := policy.Retain(object)
		if held, known := s.find(object.Key()); ok && (!known || held.Endpoints < retained.Endpoints) {
			update.set = append(update.set, retained)
		}
	}
	return s.Fit(update, policy.Limits)
}

// Clone returns a copy that can be changed without affecting the original. The
// objects are shared.
func (s *Store) Clone() *Store {
	clone := &Store{clusters: make(map[string]*cluster, len(s.clusters)), refs: maps.Clone(s.refs), unconfirmed: s.unconfirmed, usage: s.usage}
	for id, held := range s.clusters {
		copied := *held
		copied.services, copied.counts = make(map[types.NamespacedName]*exported, len(held.services)), held.counts.clone()
		for service, exported := range held.services {
			copied.services[service] = exported.clone()
		}
		for kind := range Kinds {
			copied.unconfirmed[kind] = maps.Clone(held.unconfirmed[kind])
		}
		clone.clusters[id] = &copied
	}
	return clone
}

// Export returns a Service of a cluster with its endpoints. It is nil until the
// Service itself is known: endpoints are a resource of their own and may arrive first.
func (s *Store) Export(cluster string, service types.NamespacedName) *clusterset.Export {
	held := s.clusters[cluster].find(service)
	if held == nil {
		return nil
	}
	var export clusterset.Export
	for _, object := range held.objects {
		switch content := object.Object.(type) {
		case *clusterset.ExportedService:
			export.Service = content
		case *clusterset.ExportedEndpointSlice:
			export.Slices = append(export.Slices, content)
		}
	}
	if export.Service == nil {
		return nil
	}
	return &export
}

// Services returns the Services of a cluster.
func (s *Store) Services(cluster string) []types.NamespacedName {
	held := s.clusters[cluster]
	if held == nil {
		return nil
	}
	return slices.Collect(maps.Keys(held.services))
}

// Refs returns all Services of all clusters.
func (s *Store) Refs() []Ref {
	var refs []Ref
	for id, held := range s.clusters {
		for service := range held.services {
			refs = append(refs, Ref{id, service})
		}
	}
	return refs
}

// Service returns a Service itself, nil if it is not exported.
func (s *Store) Service(ref Ref) *clusterset.ExportedService {
	held := s.clusters[ref.Cluster].find(ref.Service)
	if held == nil {
		return nil
	}
	name := clusterset.ObjectName(ref.Service.Name, ref.Cluster)
	service, _ := held.objects[Key{Services, ref.Service.Namespace, name}].Object.(*clusterset.ExportedService)
	return service
}

// Counts returns how many Services and endpoints a cluster exports, nil if none. They change
// with the store.
func (s *Store) Counts(cluster string) *Counts {
	if held := s.clusters[cluster]; held != nil {
		return held.counts
	}
	return nil
}

// Unconfirmed returns how many objects the member no longer lists without
// having confirmed that they are gone.
func (s *Store) Unconfirmed() int { return s.unconfirmed }

// find returns what is held of an object, whatever it belongs to.
func (s *Store) find(key Key) (Object, bool) {
	ref, ok := s.refs[key]
	if !ok {
		return Object{}, false
	}
	object, ok := s.clusters[ref.Cluster].services[ref.Service].objects[key]
	return object, ok
}

// find returns what a cluster exports of a Service, nil if nothing.
func (c *cluster) find(service types.NamespacedName) *exported {
	if c == nil {
		return nil
	}
	return c.services[service]
}

// ofKind returns the objects of one kind of a cluster.
func (c *cluster) ofKind(kind Kind) []Object {
	var objects []Object
	for _, known := range c.services {
		for key, object := range known.objects {
			if key.Kind == kind {
				objects = append(objects, object)
			}
		}
	}
	return objects
}

// Apply changes the store.
func (s *Store) Apply(update Update) {
	for _, object := range update.remove {
		s.delete(object.Key())
	}
	for _, object := range update.set {
		s.set(object)
	}
	for _, object := range update.unconfirmed {
		s.mark(s.clusters[object.Cluster], object.Key())
	}
	for _, object := range update.confirmed {
		if held := s.clusters[object.Cluster]; held != nil {
			s.unmark(held, object.Key())
		}
	}
}

// mark marks an object of a cluster as unconfirmed.
func (s *Store) mark(held *cluster, key Key) {
	if held.unconfirmed[key.Kind] == nil {
		held.unconfirmed[key.Kind] = map[Key]struct{}{}
	}
	before := len(held.unconfirmed[key.Kind])
	held.unconfirmed[key.Kind][key] = struct{}{}
	s.unconfirmed += len(held.unconfirmed[key.Kind]) - before
}

// unmark removes the mark of an object, if it has one.
func (s *Store) unmark(held *cluster, key Key) {
	before := len(held.unconfirmed[key.Kind])
	delete(held.unconfirmed[key.Kind], key)
	s.unconfirmed += len(held.unconfirmed[key.Kind]) - before
}

func (s *Store) set(object Object) {
	key, ref := object.Key(), Ref{object.Cluster, object.Service}
	if s.refs[key] != ref {
		s.delete(key)
	}
	held := s.clusters[object.Cluster]
	if held == nil {
		held = &cluster{services: map[types.NamespacedName]*exported{}, counts: &Counts{}}
		s.clusters[object.Cluster] = held
	}
	if before, ok := s.find(key); ok {
		s.usage = s.usage.add(before.usage(), -1)
		s.unmark(held, key)
	}
	if held.services[object.Service] == nil {
		held.services[object.Service] = newExported()
	}
	held.services[object.Service].set(key, object, held.counts)
	s.usage = s.usage.add(object.usage(), 1)
	s.refs[key] = ref
}

func (s *Store) delete(key Key) {
	object, ok := s.find(key)
	if !ok {
		return
	}
	held := s.clusters[object.Cluster]
	s.usage = s.usage.add(object.usage(), -1)
	delete(s.refs, key)
	s.unmark(held, key)
	service := held.services[object.Service]
	service.delete(key, held.counts)
	if len(service.objects) == 0 {
		delete(held.services, object.Service)
	}
	if len(held.services) == 0 {
		delete(s.clusters, object.Cluster)
	}
}
