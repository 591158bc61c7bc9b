// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preference decides which of the clusters that export a service answer the clients
// of this cluster, and how kube-proxy is told. It is pure.
//
// kube-proxy decides for each port and IP family of a Service by itself. So does everything
// here for each IP family: callers pass the endpoints of one.
package preference

import (
	"fmt"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/clusterpreference"
)

// TakeoverDelay is how long a tier that is preferred to the active one has to be usable
// before it takes over. Endpoints that become ready and fail again should not move all
// clients twice.
const TakeoverDelay = 5 * time.Second

// Clusters are what is known of the clusters of a ClusterSet.
type Clusters struct {
	// Own is the ID of this cluster, which is that of the clients.
	Own string
	// Properties are the ClusterProperties of clusters by ID and name, including those of
	// this one. Those of a cluster may be unknown.
	Properties map[string]map[string]string
}

// In reports whether a cluster is in a tier. A cluster without the property of the tier, or
// whose properties are unknown, is not. If this cluster does not have it, none is.
func (c Clusters) In(tier clusterpreference.Tier, cluster string) bool {
	switch name, isProperty := tier.Property(); {
	case tier == clusterpreference.All:
		return true
	case tier == clusterpreference.Own:
		return cluster == c.Own
	case isProperty:
		own, has := c.Properties[c.Own][name]
		value, known := c.Properties[cluster][name]
		return has && known && value == own
	}
	return false // of a newer release
}

// IsReady reports whether an endpoint counts as ready. One that is terminating does not,
// although it may still be serving: it is about to go.
func IsReady(endpoint discoveryv1.Endpoint) bool {
	conditions := endpoint.Conditions
	return (conditions.Ready == nil || *conditions.Ready) && (conditions.Terminating == nil || !*conditions.Terminating)
}

// State is what was decided for a service. The zero value is that of a service for which
// nothing was decided yet.
type State struct {
	// Active is the tier whose clusters answer.
	Active clusterpreference.Tier
	// UsableSince is since when the tiers that are usable have been usable without
	// interruption.
	UsableSince map[clusterpreference.Tier]time.Time
	// Lacked is what Detachment.Lacked returned for the active tier.
	Lacked map[string]time.Time
}

// Decide returns which tier is active, given the ready endpoints of a service by cluster and
// what was decided before. Only a tier with enough ready endpoints is usable, except that of
// all clusters, which always is. If the active tier is not usable any more, the next one that
// is follows at once. A tier that is preferred to the active one takes over when it has been
// usable for TakeoverDelay; wait is until then, zero if there is none. Decide is to be called
// when any input changes, and after wait.
//
// If nothing was decided before, or the active tier is none of the preference any more, the
// first one that is usable is active at once.
func Decide(preference clusterpreference.Preference, clusters Clusters, ready map[string]int, before State, now time.Time) (state State, wait time.Duration) {
	tiers := append(slices.Clone(preference.Tiers), clusterpreference.All)
	active := slices.Index(tiers, before.Active)
	state.UsableSince = map[clusterpreference.Tier]time.Time{}
	for i, tier := range tiers {
		if tier != clusterpreference.All && clusters.ready(tier, ready) < max(1, int(preference.MinReady)) {
			continue
		}
		since, was := before.UsableSince[tier]
		if !was {
			since = now
		}
		state.UsableSince[tier] = since
		remaining := since.Add(TakeoverDelay).Sub(now)
		switch {
		case state.Active != "": // a tier that is preferred to this one
		case active < 0 || i >= active || remaining <= 0:
			state.Active = tier
		case wait == 0 || remaining < wait:
			wait = remaining
		}
	}
	if state.Active == before.Active {
		state.Lacked = before.Lacked
	}
	return state, wait
}

// ready returns how many ready endpoints the clusters of a tier have.
func (c Clusters) ready(tier clusterpreference.Tier, ready map[string]int) int {
	sum := 0
	for cluster, count := range ready {
		if c.In(tier, cluster) {
			sum += count
		}
	}
	return sum
}

// Reason says why a tier is active: what is the matter with each one that is preferred to it.
func (c Clusters) Reason(preference clusterpreference.Preference, active clusterpreference.Tier) string {
	needed := fmt.Sprintf("at least %d ready", max(1, preference.MinReady))
	var missing, before []string
	for _, tier := range preference.Tiers {
		if tier == active {
			break
		}
		if name, isProperty := tier.Property(); isProperty && c.lacks(name) {
			missing = append(missing, fmt.Sprintf("tier %q is skipped, because this cluster has no ClusterProperty %q", tier, name))
			continue
		}
		before = append(before, fmt.Sprintf("%q", tier))
	}
	switch len(before) {
	case 0:
		if active != clusterpreference.All {
			missing = append(missing, fmt.Sprintf("it has enough endpoints (%s)", needed))
		}
	case 1:
		missing = append(missing, fmt.Sprintf("tier %s does not have enough endpoints (%s for %s)", before[0], needed, TakeoverDelay))
	default:
		missing = append(missing, fmt.Sprintf("tiers %s do not have enough endpoints (%s for %s)", strings.Join(before, ", "), needed, TakeoverDelay))
	}
	return strings.Join(missing, "; ")
}

// lacks reports whether this cluster is known not to have a ClusterProperty.
func (c Clusters) lacks(property string) bool {
	own, known := c.Properties[c.Own]
	_, has := own[property]
	return known && !has
}
