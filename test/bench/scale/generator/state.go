// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"slices"
	"sort"
	"sync"
	"time"
)

// maxEvents is how many events of a resource are kept for watches that begin, or are behind.
const maxEvents = 100_000

// state is what a member exports: how many services of each shape, and which of their slices
// changed. Everything else follows from numbers.
type state struct {
	number    int // that of the member
	shapes    []Shape
	templates []templates

	mu      sync.RWMutex
	current uint64 // resource version
	counts  []int  // of services, by shape
	steps   [][]step
	changed map[Slice]version
	logs    map[string]*eventLog // by resource
	// updated is closed with the next event.
	updated chan struct{}
}

// step is when services of a shape were added: those from a number on, each with its slices,
// have the resource versions after this one.
type step struct {
	from   int
	before uint64
}

// version is the state of an object: its resource version, and the last change if there was any.
type version struct {
	number uint64
	change *Change
}

// event is an event of a watch.
type event struct {
	kind string
	of   Slice
	now  version
}

// eventLog has the latest events in their order.
type eventLog struct {
	events []event
	// dropped is the version of the last event that is not kept.
	dropped uint64
}

func newState(number int, cluster string, shapes []Shape) (*state, error) {
	s := &state{
		number: number, shapes: shapes, current: 1, counts: make([]int, len(shapes)), steps: make([][]step, len(shapes)), changed: map[Slice]version{},
		logs: map[string]*eventLog{servicesResource: {}, slicesResource: {}}, updated: make(chan struct{}),
	}
	for _, shape := range shapes {
		made, err := newTemplates(cluster, shape)
		if err != nil {
			return nil, err
		}
		s.templates = append(s.templates, made)
	}
	return s, nil
}

// firstEndpoint returns the number of the first endpoint of a slice, among all of all members.
func (s *state) firstEndpoint(of Slice) uint64 {
	const apart = 1_000_003 // members have different addresses, unless they are many and large
	number := uint64(s.number) * apart
	for shape := range of.Shape {
		number += uint64(shape+1) * 100_003
	}
	shape := s.shapes[of.Shape]
	return number + uint64((of.Service*shape.Slices+of.Slice)*shape.Endpoints)
}

// object returns a number that no other object of the member has.
func (s *state) object(of Slice) uint64 {
	return uint64(of.Shape)<<40 | uint64(of.Service)<<16 | uint64(of.Slice+1)
}

// export adds or withdraws services of a shape at the end, so that a number of them is exported.
func (s *state) export(shape, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, to := s.counts[shape], count
	if from < to {
		s.steps[shape] = append(s.steps[shape], step{from, s.current})
	}
	for service := from; service < to; service++ {
		for slice := noSlice; slice < s.shapes[shape].Slices; slice++ {
			s.recordLocked("ADDED", Slice{shape, service, slice}, nil)
		}
	}
	for service := from - 1; service >= to; service-- {
		for slice := s.shapes[shape].Slices - 1; slice >= noSlice; slice-- {
			of := Slice{shape, service, slice}
			s.recordLocked("DELETED", of, s.changed[of].change)
			delete(s.changed, of)
		}
	}
	s.counts[shape] = to
	s.steps[shape] = slices.DeleteFunc(s.steps[shape], func(step step) bool { return step.from >= to })
	s.announceLocked()
}

// change changes a slice that is exported.
func (s *state) change(of Slice, change *Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed[of] = s.recordLocked("MODIFIED", of, change)
	s.announceLocked()
}

func (s *state) recordLocked(kind string, of Slice, change *Change) version {
	s.current++
	now := version{s.current, change}
	log := s.logs[resourceOf(of)]
	if len(log.events) == maxEvents {
		log.dropped = log.events[maxEvents/2-1].now.number
		log.events = slices.Clone(log.events[maxEvents/2:])
	}
	log.events = append(log.events, event{kind, of, now})
	return now
}

func (s *state) announceLocked() {
	close(s.updated)
	s.updated = make(chan struct{})
}

// since returns the events after a version, the version that they lead to, and a channel that is
// closed when there are more. It reports false if the events are not kept any more.
func (s *state) since(resource string, after uint64) (events []event, now uint64, more <-chan struct{}, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	log := s.logs[resource]
	if after < log.dropped {
		return nil, 0, nil, false
	}
	at := sort.Search(len(log.events), func(i int) bool { return log.events[i].now.number > after })
	return log.events[at:len(log.events):len(log.events)], s.current, s.updated, true
}

// snapshot is which objects there are at a version.
type snapshot struct {
	version uint64
	counts  []int
}

func (s *state) snapshot() snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return snapshot{s.current, slices.Clone(s.counts)}
}

// objects passes the objects of a snapshot to yield, from a position on, until it returns false.
// Each is in its present state, which may be newer than the snapshot: the events after it lead to
// that state again. What was withdrawn since is left out.
func (s *state) objects(resource string, in snapshot, position int, yield func(of Slice, now version) bool) {
	for shape, count := range in.counts {
		first, per := noSlice, 1
		if resource == slicesResource {
			first, per = 0, s.shapes[shape].Slices
		}
		for at := position; at < count*per; at++ {
			of := Slice{shape, at / per, first + at%per}
			if now, present := s.version(of); present && !yield(of, now) {
				return
			}
		}
		position = max(position-count*per, 0)
	}
}

// version returns the state of an object, and false if it is not exported.
func (s *state) version(of Slice) (version, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if of.Service >= s.counts[of.Shape] {
		return version{}, false
	}
	if now, ok := s.changed[of]; ok {
		return now, true
	}
	steps := s.steps[of.Shape]
	added := steps[sort.Search(len(steps), func(i int) bool { return steps[i].from > of.Service })-1]
	per := uint64(1 + s.shapes[of.Shape].Slices)
	return version{number: added.before + uint64(of.Service-added.from)*per + uint64(of.Slice+1) + 1}, true
}

func (s *state) exported(shape int) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.counts[shape]
}

// totals returns how many services and endpoints are exported.
func (s *state) totals() (services, endpoints int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for shape, count := range s.counts {
		services, endpoints = services+count, endpoints+count*s.shapes[shape].perService()
	}
	return services, endpoints
}

// changeAt returns a change that is made now.
func changeAt(number uint32) *Change {
	return &Change{Address: Marker(number), made: time.Now(), sent: make(chan struct{})}
}
