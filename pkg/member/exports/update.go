// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// Update is how a Store has to change.
type Update struct {
	set, remove []Object
	// unchanged are objects of a complete list that are held already.
	unchanged []Object
	// unconfirmed are objects to be marked as such, and confirmed those whose mark
	// is to be removed.
	unconfirmed, confirmed []Object
	// refused are objects that arrived, but do not fit.
	refused []Arrival
}

// Refused returns the objects that arrived, but do not fit.
func (u Update) Refused() []Arrival { return u.refused }

// Len returns how many changes there are.
func (u Update) Len() int {
	return len(u.set) + len(u.remove) + len(u.unconfirmed) + len(u.confirmed)
}

// Services returns the Services whose objects change.
func (u Update) Services() sets.Set[Ref] {
	refs := sets.New[Ref]()
	for _, objects := range [][]Object{u.set, u.remove} {
		for _, object := range objects {
			refs.Insert(Ref{object.Cluster, object.Service})
		}
	}
	return refs
}

// Doubts reports whether objects that are held were not listed, which the member
// has to confirm.
func (u Update) Doubts() bool { return len(u.unconfirmed) > 0 }

// Upsert returns the update for an object that was added or modified. An object
// that is not admitted is removed: the state held before is outdated.
func (s *Store) Upsert(arrival Arrival) Update {
	var update Update
	s.upsert(&update, arrival)
	update.unchanged = nil
	return update
}

func (s *Store) upsert(update *Update, arrival Arrival) {
	object := arrival.Object
	held, ok := s.find(object.Key())
	switch {
	case !arrival.Admitted && arrival.Err == nil:
		return
	case !arrival.Admitted:
		if ok {
			update.remove = append(update.remove, held)
		}
		return
	case !ok:
		update.set = append(update.set, object)
		return
	}
	if held.Cluster != object.Cluster || held.Service != object.Service {
		update.remove = append(update.remove, held)
	} else if _, unconfirmed := s.clusters[held.Cluster].unconfirmed[held.Kind][held.Key()]; unconfirmed {
		update.confirmed = append(update.confirmed, object)
	}
	if equal(held, object) {
		update.unchanged = append(update.unchanged, held)
		return
	}
	update.set = append(update.set, object)
}

func equal(a, b Object) bool {
	if a.Cluster != b.Cluster || a.Service != b.Service || a.Endpoints != b.Endpoints {
		return false
	}
	slice, ok := a.Object.(*clusterset.ExportedEndpointSlice)
	other, both := b.Object.(*clusterset.ExportedEndpointSlice)
	if ok && both {
		return slice.Same(other)
	}
	return apiequality.Semantic.DeepEqual(a.Object, b.Object)
}

// Remove returns the update for an object that was deleted.
func (s *Store) Remove(object Object) Update {
	if held, ok := s.find(object.Key()); ok {
		return Update{remove: []Object{held}}
	}
	return Update{}
}

// Replace returns the update for a complete list of one kind. Objects of the
// member that the list lacks are removed, unless the list contains none: unknown
// is not empty, so they are kept as unconfirmed. So are all missing objects of
// other clusters: a hub that was just started may not have read them yet.
func (s *Store) Replace(member string, kind Kind, arrivals []Arrival) Update {
	var update Update
	listed := map[string]sets.Set[Key]{}
	for _, arrival := range arrivals {
		s.upsert(&update, arrival)
		if arrival.Admitted {
			if listed[arrival.Object.Cluster] == nil {
				listed[arrival.Object.Cluster] = sets.New[Key]()
			}
			listed[arrival.Object.Cluster].Insert(arrival.Object.Key())
		}
	}
	removed := sets.New[Key]()
	for _, object := range update.remove {
		removed.Insert(object.Key())
	}
	for id, held := range s.clusters {
		for _, object := range held.ofKind(kind) {
			switch key := object.Key(); {
			case removed.Has(key), listed[id].Has(key):
			case len(listed[id]) == 0, id != member:
				update.unconfirmed = append(update.unconfirmed, object)
			default:
				update.remove = append(update.remove, object)
			}
		}
	}
	return update
}

// Confirm returns the update that removes unconfirmed objects, as far as the
// entries that the member sent confirm that they are gone: an entry is synced
// and counts exactly what is left without them, or a hub no longer has an entry
// for the cluster.
func (s *Store) Confirm(member string, entries map[string]*clusterset.Member, rejected [Kinds]*Rejections) Update {
	var update Update
	for id, held := range s.clusters {
		for kind := range Kinds {
			unconfirmed := held.unconfirmed[kind]
			if len(unconfirmed) == 0 {
				continue
			}
			count := rejected[kind].count(id)
			var gone []Object
			for _, object := range held.ofKind(kind) {
				if _, ok := unconfirmed[object.Key()]; ok {
					gone = append(gone, object)
				} else {
					count += object.weight()
				}
			}
			if confirms(member, entries, id, kind, count) {
				update.remove = append(update.remove, gone...)
			}
		}
	}
	return update
}

// weight is what an object adds to the count in the entry of its cluster.
func (o Object) weight() int32 {
	if o.Kind == Services {
		return 1
	}
	return o.Endpoints
}

func confirms(member string, entries map[string]*clusterset.Member, cluster string, kind Kind, count int32) bool {
	entry := entries[cluster]
	switch {
	case entry == nil:
		return cluster != member
	case cluster == member && entry.Status.State != clusterset.MemberLocal, !entry.Status.Synced:
		return false
	case kind == Services:
		return entry.Status.Exports == count
	}
	return entry.Status.Endpoints == count
}

// Retain returns the update that enforces a policy on the objects that are held.
func (s *Store) Retain(policy Policy) Update {
	var update Update
	for _, held := range s.clusters {
		for kind := range Kinds {
			for _, object := range held.ofKind(kind) {
				retained, ok := policy.Retain(object)
				switch {
				case !ok:
					update.remove = append(update.remove, object)
				case retained.Object != object.Object:
					update.set = append(update.set, retained)
				}
			}
		}
	}
	return update
}
