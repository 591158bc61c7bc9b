// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

const (
	// DefaultMemoryLimit is how much memory the exports of a member may take,
	// unless its Secret says otherwise: about 200,000 endpoints.
	DefaultMemoryLimit = 64 << 20
	// maxObjectBytes is how much memory one object may take: several times that
	// of an EndpointSlice with 1,000 endpoints.
	maxObjectBytes = 1 << 20
)

// Bytes returns how much memory the objects take.
func (s *Store) Bytes() int64 { return s.bytes }

// Fit returns an update as far as the objects fit into a limit afterwards. What is
// held takes precedence over what is new, so that a member that exports too much
// keeps the Services that others use. An object that became too large is removed:
// the state that is held of it is outdated.
func (s *Store) Fit(update Update, limit int64) Update {
	used := s.bytes
	changing := sets.New[Key]()
	leave := func(object Object) {
		if held, ok := s.find(object.Key()); ok && !changing.Has(object.Key()) {
			used -= held.Bytes
		}
		changing.Insert(object.Key())
	}
	removed := sets.New[Key]()
	for _, object := range update.remove {
		leave(object)
		removed.Insert(object.Key())
	}
	for _, object := range update.set {
		leave(object)
	}
	if used > limit { // the limit was lowered
		used -= s.trim(&update, used-limit, changing)
	}
	wanted := update.set
	update.set = nil
	for _, known := range []bool{true, false} {
		for _, object := range wanted {
			held, ok := s.find(object.Key())
			switch {
			case ok != known:
			case used+object.Bytes <= limit:
				used += object.Bytes
				update.set = append(update.set, object)
			default:
				update.refused = append(update.refused, OverLimit(object, limit))
				if ok && !removed.Has(held.Key()) {
					update.remove = append(update.remove, held)
				}
			}
		}
	}
	return update
}

// trim adds held objects to those that an update removes, the last ones first,
// until enough memory is free. It returns how much that is.
func (s *Store) trim(update *Update, bytes int64, changing sets.Set[Key]) (freed int64) {
	keys := slices.SortedFunc(func(yield func(Key) bool) {
		for key := range s.refs {
			if !changing.Has(key) && !yield(key) {
				return
			}
		}
	}, compareKeys)
	for _, key := range slices.Backward(keys) {
		if freed >= bytes {
			break
		}
		object, _ := s.find(key)
		update.remove = append(update.remove, object)
		freed += object.Bytes
	}
	return freed
}

// OverLimit returns an object as refused because the exports of its member would
// take more memory than the limit.
func OverLimit(object Object, limit int64) Arrival {
	return Arrival{Object: object, Err: refuse(ReasonMemoryLimit, "exports of the member take more than %s of memory: raise %s in its Secret, or export less; the object is read again when there is room",
		resource.NewQuantity(limit, resource.BinarySI), clusterset.MemberSecretMemoryLimit)}
}
