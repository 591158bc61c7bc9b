// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// limitAge makes an export take effect no earlier than its cluster joined the
// ClusterSet: the oldest export takes precedence, and a cluster could otherwise
// claim any age. It does not modify the export. A time that the cluster reports
// itself counts if it is later, as after it left and joined again. Relayed exports
// were limited by the first relay and are passed on unchanged, so that their age is
// the same in every cluster.
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
}

// Len returns how many there are.
func (b *Backdated) Len() int { return len(b.claims) }

// First describes one of them, the same one for the same set.
func (b *Backdated) First() string {
	if b.Len() == 0 {
		return ""
	}
	return b.claims[slices.MinFunc(slices.Collect(maps.Keys(b.claims)), compareKeys)]
}

// Observe takes an object that was added or modified, and reports whether it
// is a new export that was backdated. known is whether it was exported before, and
// complete the last time at which all exports of the member were known.
func (b *Backdated) Observe(member string, arrival Arrival, known bool, complete time.Time) bool {
	service, ok := arrival.Object.Object.(*clusterset.ExportedService)
	if !ok || !arrival.Admitted || known || arrival.Object.Cluster != member {
		return false
	}
	since := service.Spec.Since()
	if complete.Sub(since.Time) <= maxDelay {
		return false
	}
	if b.claims == nil {
		b.claims = map[Key]string{}
	}
	b.claims[arrival.Object.Key()] = fmt.Sprintf("Service %s claims to be exported since %s, and was not exported at %s",
		arrival.Object.Service, since.UTC().Format(time.RFC3339), complete.UTC().Format(time.RFC3339))
	return true
}

// Retain removes the exports that were withdrawn.
func (b *Backdated) Retain(exported func(Key) bool) {
	maps.DeleteFunc(b.claims, func(key Key, _ string) bool { return !exported(key) })
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
