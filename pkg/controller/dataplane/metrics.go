// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"slices"
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
)

var (
	activeTiers = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "mcs_controller", Subsystem: "preference", Name: "active_tier", StabilityLevel: metrics.ALPHA,
		Help: "How many ServiceImports that prefer clusters use which kind of tier: cluster, property, or all. One with two IP families counts twice. None in a replica that does not lead.",
	}, []string{"tier"})
	tierChanges = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "mcs_controller", Subsystem: "preference", Name: "changes_total", StabilityLevel: metrics.ALPHA,
		Help: "How often another tier of clusters became the active one, by direction: fallback to one that is preferred less, or takeover by one that is preferred more.",
	}, []string{"direction"})
	ineffective = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "mcs_controller", Subsystem: "preference", Name: "ineffective_imports", StabilityLevel: metrics.ALPHA,
		Help: "How many ServiceImports prefer clusters without effect on some or all clients, by reason: NodesWithoutZone, TooFewEndpoints to be hinted for all zones, or " +
			"ImportType, which is headless or has internalTrafficPolicy Local. Their condition Ready says more. None in a replica that does not lead.",
	}, []string{"reason"})
)

var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(activeTiers, tierChanges, ineffective) })

// kind returns the label for a tier.
func kind(tier clusterpreference.Tier) string {
	if _, isProperty := tier.Property(); isProperty {
		return "property"
	}
	return string(tier)
}

// measureActive counts that the active tier of an import changed. Either is empty if there is none.
func measureActive(before, after clusterpreference.Tier) {
	if before != "" {
		activeTiers.WithLabelValues(kind(before)).Dec()
	}
	if after != "" {
		activeTiers.WithLabelValues(kind(after)).Inc()
	}
}

// forgetActive removes what was counted in a term of leadership.
func forgetActive() {
	activeTiers.Reset()
	ineffective.Reset()
}

// measureChange counts that another tier of a preference is the active one, unless there was none.
func measureChange(preference clusterpreference.Preference, before, after clusterpreference.Tier) {
	tiers := append(slices.Clone(preference.Tiers), clusterpreference.All)
	switch from, to := slices.Index(tiers, before), slices.Index(tiers, after); {
	case before == "" || from < 0: // the preference changed
	case from < to:
		tierChanges.WithLabelValues("fallback").Inc()
	default:
		tierChanges.WithLabelValues("takeover").Inc()
	}
}

// measureIneffective counts that the preference of an import is ineffective for another reason
// than before. Either is empty if it is effective.
func measureIneffective(before, after ineffectiveReason) {
	if before == after {
		return
	}
	if before != "" {
		ineffective.WithLabelValues(string(before)).Dec()
	}
	if after != "" {
		ineffective.WithLabelValues(string(after)).Inc()
	}
}
