// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

var refusedObjects = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Namespace: "mcs_apiserver", Subsystem: "member", Name: "refused_objects", StabilityLevel: metrics.ALPHA,
	Help: "Objects of a member that are rejected or admitted only in part at present, by reason. Reasons that end the reading of a member, such as TooManyExports, count as 1.",
}, []string{"cluster", "reason"})

var backdatedExports = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace: "mcs_apiserver", Subsystem: "member", Name: "backdated_exports_total", StabilityLevel: metrics.ALPHA,
	Help: "New exports that claim to be older than their arrival allows, by member.",
}, []string{"cluster"})

var memberStates = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Namespace: "mcs_apiserver", Name: "members", StabilityLevel: metrics.ALPHA,
	Help: "Number of other clusters in the members list, by state.",
}, []string{"state"})

var silence = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Namespace: "mcs_apiserver", Subsystem: "member", Name: "silence_seconds", StabilityLevel: metrics.ALPHA,
	Help: "Time since any replica last saw a member, by member.",
}, []string{"cluster"})

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(refusedObjects, backdatedExports, memberStates, silence) })

// measureLocked updates the metrics of what changes as time passes.
func (r *roster) measureLocked(now time.Time) {
	counts := map[clusterset.MemberState]int{
		clusterset.MemberConnecting: 0, clusterset.MemberConnected: 0, clusterset.MemberUnavailable: 0,
		clusterset.MemberStale: 0, clusterset.MemberLost: 0, clusterset.MemberRefused: 0,
	}
	for name, entry := range r.entries {
		if entry.Status.State == clusterset.MemberLocal {
			continue
		}
		counts[entry.Status.State]++
		if seen := entry.Status.LastSeen; seen != nil {
			r.measured.Insert(name)
			silence.WithLabelValues(name).Set(now.Sub(seen.Time).Seconds())
		}
	}
	for state, count := range counts {
		memberStates.WithLabelValues(string(state)).Set(float64(count))
	}
	for name := range r.measured {
		if entry := r.entries[name]; entry == nil || entry.Status.LastSeen == nil {
			silence.Delete(map[string]string{"cluster": name})
			r.measured.Delete(name)
		}
	}
}

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
