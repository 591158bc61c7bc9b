// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"fmt"
	"maps"
	"slices"
)

// Rejections are the objects of one kind that were rejected, or admitted only
// in part. A nil value is empty. The objects themselves are not kept, because
// validation does not limit the size of an object that it rejects.
type Rejections struct {
	byKey map[Key]rejection
	keys  sortedKeys
	// byReason are the numbers of objects.
	byReason map[string]int
}

type rejection struct {
	*Refusal
	// cluster is the exporting cluster, and weight what the object adds to the
	// count in its entry, unless the object is held and counted there.
	cluster string
	weight  int32
}

func newRejection(arrival Arrival) rejection {
	r := rejection{Refusal: arrival.Err, cluster: arrival.Object.Cluster}
	if !arrival.Admitted {
		r.weight = arrival.Object.weight()
	}
	return r
}

// NewRejections returns the rejections in a list.
func NewRejections(arrivals []Arrival) *Rejections {
	r := &Rejections{byKey: map[Key]rejection{}, byReason: map[string]int{}}
	for _, arrival := range arrivals {
		if arrival.Err != nil {
			r.set(arrival.Object.Key(), newRejection(arrival))
		}
	}
	r.keys = slices.SortedFunc(maps.Keys(r.byKey), compareKeys)
	return r
}

// Observe records whether an object is rejected now.
func (r *Rejections) Observe(arrival Arrival) {
	key := arrival.Object.Key()
	if arrival.Err != nil {
		r.keys.insert(key)
		r.set(key, newRejection(arrival))
		return
	}
	r.keys.remove(key)
	r.unset(key)
}

func (r *Rejections) set(key Key, rejected rejection) {
	r.unset(key)
	r.byKey[key] = rejected
	r.byReason[rejected.Reason]++
}

func (r *Rejections) unset(key Key) {
	before, ok := r.byKey[key]
	if !ok {
		return
	}
	delete(r.byKey, key)
	if r.byReason[before.Reason]--; r.byReason[before.Reason] == 0 {
		delete(r.byReason, before.Reason)
	}
}

// AddTo adds the numbers of objects to counts by reason.
func (r *Rejections) AddTo(counts map[string]int) {
	if r != nil {
		for reason, count := range r.byReason {
			counts[reason] += count
		}
	}
}

// For returns how many objects are rejected for a reason.
func (r *Rejections) For(reason string) int {
	if r == nil {
		return 0
	}
	return r.byReason[reason]
}

// Len returns how many objects are rejected.
func (r *Rejections) Len() int {
	if r == nil {
		return 0
	}
	return len(r.keys)
}

// First describes one rejected object, the same one for the same rejections.
func (r *Rejections) First() string {
	if r.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %s", r.keys[0], r.byKey[r.keys[0]].message)
}

// count returns what the rejected objects add to the count in the entry of a
// cluster.
func (r *Rejections) count(cluster string) int32 {
	if r == nil {
		return 0
	}
	var count int32
	for _, rejected := range r.byKey {
		if rejected.cluster == cluster {
			count += rejected.weight
		}
	}
	return count
}
