// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"cmp"
	"fmt"
	"slices"
)

// Rejections are the objects of one kind that were rejected, or admitted only
// in part. A nil value is empty.
type Rejections struct {
	byKey map[Key]Arrival
	// keys are sorted, so that the first does not have to be searched for.
	keys []Key
}

// NewRejections returns the rejections in a list.
func NewRejections(arrivals []Arrival) *Rejections {
	r := &Rejections{byKey: map[Key]Arrival{}}
	for _, arrival := range arrivals {
		if arrival.Err != nil {
			r.byKey[arrival.Object.Key()] = arrival
		}
	}
	for key := range r.byKey {
		r.keys = append(r.keys, key)
	}
	slices.SortFunc(r.keys, compareKeys)
	return r
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Observe records whether an object is rejected now.
func (r *Rejections) Observe(arrival Arrival) {
	key := arrival.Object.Key()
	at, known := slices.BinarySearchFunc(r.keys, key, compareKeys)
	switch {
	case arrival.Err != nil:
		if !known {
			r.keys = slices.Insert(r.keys, at, key)
		}
		r.byKey[key] = arrival
	case known:
		r.keys = slices.Delete(r.keys, at, at+1)
		delete(r.byKey, key)
	}
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
	return fmt.Sprintf("%s: %v", r.keys[0], r.byKey[r.keys[0]].Err)
}

// count returns what the rejected objects add to the count in the entry of a
// cluster. Those that were admitted in part are held and counted there.
func (r *Rejections) count(cluster string) int32 {
	if r == nil {
		return 0
	}
	var count int32
	for _, arrival := range r.byKey {
		if !arrival.Admitted && arrival.Object.Cluster == cluster {
			count += arrival.Object.weight()
		}
	}
	return count
}
