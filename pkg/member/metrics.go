// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var refusedObjects = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Namespace: "mcs_apiserver", Subsystem: "member", Name: "refused_objects", StabilityLevel: metrics.ALPHA,
	Help: "Objects of a member that are rejected or admitted only in part at present, by reason. Reasons that end the reading of a member, such as TooManyExports, count as 1.",
}, []string{"cluster", "reason"})

var backdatedExports = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace: "mcs_apiserver", Subsystem: "member", Name: "backdated_exports_total", StabilityLevel: metrics.ALPHA,
	Help: "New exports that claim to be older than their arrival allows, by member.",
}, []string{"cluster"})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(refusedObjects, backdatedExports) })

// countRefusalsLocked updates the metric of what is refused of a peer.
func (p *peer) countRefusalsLocked(counts map[string]int) {
	if maps.Equal(p.refusals, counts) {
		return
	}
	for reason := range p.refusals {
		if counts[reason] == 0 {
			refusedObjects.Delete(map[string]string{"cluster": p.spec.EntryName(), "reason": reason})
		}
	}
	for reason, count := range counts {
		refusedObjects.WithLabelValues(p.spec.EntryName(), reason).Set(float64(count))
	}
	p.refusals = counts
}
