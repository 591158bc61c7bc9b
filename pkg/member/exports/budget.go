// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

const (
	// DefaultMemoryLimit is how much memory the exports of a member may take,
	// unless its Secret says otherwise: about 200,000 endpoints.
	DefaultMemoryLimit = 64 << 20
	// DefaultServiceLimit and DefaultEndpointLimit are how many Services and endpoints
	// a member may export, unless its Secret says otherwise.
	DefaultServiceLimit  = 5_000
	DefaultEndpointLimit = 50_000
	// maxObjectBytes is how much memory one object may take: several times that
	// of an EndpointSlice with 1,000 endpoints.
	maxObjectBytes = 1 << 20
)

// Usage is what objects of a member take: memory in mcs-apiserver, and derived
// Services and endpoints that every cluster writes that imports them.
type Usage struct{ Bytes, Services, Endpoints int64 }

// DefaultLimits returns what the objects of a member may take, unless its Secret says
// otherwise.
func DefaultLimits() Usage {
	return Usage{Bytes: DefaultMemoryLimit, Services: DefaultServiceLimit, Endpoints: DefaultEndpointLimit}
}

// usage returns what the object takes.
func (o Object) usage() Usage {
	switch content := o.Object.(type) {
	case *clusterset.ExportedService:
		return Usage{Bytes: o.Bytes, Services: 1}
	case *clusterset.ExportedEndpointSlice:
		return Usage{Bytes: o.Bytes, Endpoints: int64(len(content.Spec.Endpoints))}
	}
	return Usage{Bytes: o.Bytes}
}

// add adds what another object takes, times a number.
func (u Usage) add(other Usage, times int64) Usage {
	return Usage{u.Bytes + times*other.Bytes, u.Services + times*other.Services, u.Endpoints + times*other.Endpoints}
}

// exceeds returns the first limit that is exceeded, and false if none is.
func (u Usage) exceeds(limits Usage) (reason string, exceeded bool) {
	switch {
	case u.Bytes > limits.Bytes:
		return ReasonMemoryLimit, true
	case u.Services > limits.Services:
		return ReasonServiceLimit, true
	case u.Endpoints > limits.Endpoints:
		return ReasonEndpointLimit, true
	}
	return "", false
}

// relievedBy reports whether a limit is exceeded by less without an object.
func (u Usage) relievedBy(object, limits Usage) bool {
	return u.Bytes > limits.Bytes && object.Bytes > 0 || u.Services > limits.Services && object.Services > 0 || u.Endpoints > limits.Endpoints && object.Endpoints > 0
}

// LimitReasons are the reasons of objects that are read again when there is room.
func LimitReasons() []string {
	return []string{ReasonMemoryLimit, ReasonServiceLimit, ReasonEndpointLimit}
}

// Usage returns what the objects take.
func (s *Store) Usage() Usage { return s.usage }

// Fit returns an update as far as the objects fit into limits afterwards. The oldest
// objects of a complete list take precedence: a member that exports too much keeps the
// Services that others use, and all replicas that read the list hold the same. Other
// objects are refused if there is no room, until everything is read again. An object
// that became too large is removed: the state that is held of it is outdated.
func (s *Store) Fit(update Update, limits Usage) Update {
	s.compete(&update, limits)
	used := s.usage
	changing := sets.New[Key]()
	leave := func(object Object) {
		if held, ok := s.find(object.Key()); ok && !changing.Has(object.Key()) {
			used = used.add(held.usage(), -1)
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
	used = s.trim(&update, used, limits, changing)
	wanted := slices.SortedFunc(slices.Values(update.set), compareAges)
	update.set = nil
	for _, object := range wanted {
		with := used.add(object.usage(), 1)
		reason, exceeded := with.exceeds(limits)
		held, known := s.find(object.Key())
		switch {
		case exceeded:
			update.refused = append(update.refused, overLimit(object, reason, limits))
			if known && !removed.Has(object.Key()) {
				update.remove = append(update.remove, held)
			}
			continue
		case !known || removed.Has(object.Key()) || held.Object != object.Object:
			update.set = append(update.set, object)
		}
		used = with
	}
	return update
}

// compete adds the objects that a complete list contains unchanged to those that it
// sets, if not all of them fit.
func (s *Store) compete(update *Update, limits Usage) {
	after := s.usage
	for _, object := range update.set {
		after = after.add(object.usage(), 1)
	}
	if _, exceeded := after.exceeds(limits); exceeded {
		update.set = append(update.set, update.unchanged...)
	}
}

// compareAges orders objects by age, and those of the same age by key.
func compareAges(a, b Object) int {
	return cmp.Or(a.since().Compare(b.since()), compareKeys(a.Key(), b.Key()))
}

// since returns when the object was exported.
func (o Object) since() time.Time {
	switch content := o.Object.(type) {
	case *clusterset.ExportedService:
		return content.Spec.Since().Time
	case *clusterset.ExportedEndpointSlice:
		return content.CreationTimestamp.Time
	}
	return time.Time{}
}

// trim adds held objects to those that an update removes until the rest is within
// limits that were lowered: the last ones first, and only of a kind that helps. used
// is what those that do not change take; it returns what is left of it.
func (s *Store) trim(update *Update, used, limits Usage, changing sets.Set[Key]) Usage {
	if _, exceeded := used.exceeds(limits); !exceeded {
		return used
	}
	keys := slices.SortedFunc(func(yield func(Key) bool) {
		for key := range s.refs {
			if !changing.Has(key) && !yield(key) {
				return
			}
		}
	}, compareKeys)
	for _, key := range slices.Backward(keys) {
		object, _ := s.find(key)
		if !used.relievedBy(object.usage(), limits) {
			continue
		}
		update.remove = append(update.remove, object)
		used = used.add(object.usage(), -1)
	}
	return used
}

// OverMemoryLimit returns an object as refused because the exports of its member would
// take more memory than the limit.
func OverMemoryLimit(object Object, bytes int64) Arrival {
	return overLimit(object, ReasonMemoryLimit, Usage{Bytes: bytes})
}

// overLimit returns an object as refused because of a limit.
func overLimit(object Object, reason string, limits Usage) Arrival {
	what, key := resource.NewQuantity(limits.Bytes, resource.BinarySI).String()+" of memory", clusterset.MemberSecretMemoryLimit
	switch reason {
	case ReasonServiceLimit:
		what, key = fmt.Sprintf("%d Services", limits.Services), clusterset.MemberSecretServiceLimit
	case ReasonEndpointLimit:
		what, key = fmt.Sprintf("%d endpoints", limits.Endpoints), clusterset.MemberSecretEndpointLimit
	}
	return Arrival{Object: object, Err: refuse(reason, "exports of the member take more than %s: raise %s in its Secret, or export less; the object is read again when there is room", what, key)}
}
