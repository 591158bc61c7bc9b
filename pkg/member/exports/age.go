// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// limitAge makes an export take effect no earlier than the member that it was read from
// joined the ClusterSet: the oldest export takes precedence, and a cluster could otherwise
// claim any age. It does not modify the export. A time that the cluster reports
// itself counts if it is later, as after it left and joined again. Relayed exports
// were limited by the first relay. Clusters usually join after the hub that relays them, so
// that their age is the same in every cluster.
func limitAge(service *clusterset.ExportedService, joinedAt time.Time) *clusterset.ExportedService {
	since := service.Spec.Since()
	if !joinedAt.After(since.Time) {
		return service
	}
	limited := *service
	limited.Spec.EffectiveAt = metav1.NewTime(joinedAt)
	return &limited
}

// maxDelay is how much older an export may be than its arrival.
const maxDelay = time.Minute

// Backdated are the exports of a member that took effect before the member was
// known not to export them. They are reported, but their precedence is that of the
// age that they claim: clusters that learn of an export at different times would
// otherwise disagree. The zero value is empty.
type Backdated struct {
	claims map[Key]string
	keys   sortedKeys
}

// Len returns how many there are.
func (b *Backdated) Len() int { return len(b.keys) }

// First describes one of them, the same one for the same set.
func (b *Backdated) First() string {
	if b.Len() == 0 {
		return ""
	}
	return b.claims[b.keys[0]]
}

// Observe takes objects that were added or modified, and returns how many of them are
// held in the store now and new exports that were backdated. known are those that were
// exported before, and complete is the last time at which all exports of the member were
// known.
func (b *Backdated) Observe(store *Store, member string, arrivals []Arrival, known map[Key]bool, complete time.Time) int {
	var found []Key
	for _, arrival := range arrivals {
		service, ok := arrival.Object.Object.(*clusterset.ExportedService)
		key := arrival.Object.Key()
		if !ok || !store.Has(key) || known[key] || arrival.Object.Cluster != member {
			continue
		}
		since := service.Spec.Since()
		if complete.Sub(since.Time) <= maxDelay {
			continue
		}
		if b.claims == nil {
			b.claims = map[Key]string{}
		}
		b.claims[key] = fmt.Sprintf("Service %s claims to be exported since %s, and was not exported at %s",
			arrival.Object.Service, since.UTC().Format(time.RFC3339), complete.UTC().Format(time.RFC3339))
		found = append(found, key)
	}
	if len(found) > 0 {
		b.keys.insert(found...)
	}
	return len(found)
}

// Withdraw removes the exports that an update removed from the store, unless they are
// held again.
func (b *Backdated) Withdraw(store *Store, update Update) {
	var withdrawn []Key
	for _, object := range update.remove {
		key := object.Key()
		if _, backdated := b.claims[key]; backdated && !store.Has(key) {
			delete(b.claims, key)
			withdrawn = append(withdrawn, key)
		}
	}
	if len(withdrawn) > 0 {
		b.keys.remove(withdrawn...)
	}
}

// Has reports whether an object is held.
func (s *Store) Has(key Key) bool {
	_, ok := s.refs[key]
	return ok
}

// Known returns which of the objects are held.
func (s *Store) Known(arrivals []Arrival) map[Key]bool {
	known := map[Key]bool{}
	for _, arrival := range arrivals {
		if key := arrival.Object.Key(); s.Has(key) {
			known[key] = true
		}
	}
	return known
}
