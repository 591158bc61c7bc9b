// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// linked reports whether one cluster becomes a member of another: of every other one, or of
// the hub only, if there is one.
func linked(clusters []Cluster, c, peer Cluster) bool {
	withHub := slices.ContainsFunc(clusters, func(c Cluster) bool { return c.Hub })
	return c.Context != peer.Context && (!withHub || c.Hub || peer.Hub)
}

// grantRelay plans how the hub lets the others read each other through it.
func grantRelay(clusters []Cluster) []Step {
	var planned Plan
	for _, c := range clusters {
		if c.Hub {
			planned.add(c, GrantRelay, clusters, func(peer Cluster) bool { return !c.Relaying[peer.ID] })
		}
	}
	return planned.Steps
}

// allowRelay plans how the others let the hub relay. What they allow already is kept.
func allowRelay(clusters []Cluster) []Step {
	var steps []Step
	for _, c := range clusters {
		for _, hub := range clusters {
			if !hub.Hub || hub.Context == c.Context {
				continue
			}
			before := c.Members[hub.ID].RelayFor
			if value := relayFor(clusters, c, before); value != "" && value != before {
				steps = append(steps, Step{Context: c.Context, Action: AllowRelay, Value: value, Before: before, Peers: []string{hub.ID}})
			}
		}
	}
	return steps
}

// relayFor returns the clusters that a hub may relay to a cluster: all others, and those that
// it may relay already.
func relayFor(clusters []Cluster, c Cluster, before string) string {
	ids := clusterset.SplitList(before)
	if slices.Contains(ids, "*") {
		return before
	}
	added := false
	for _, other := range clusters {
		if other.Context != c.Context && !other.Hub && !slices.Contains(ids, other.ID) {
			ids, added = append(ids, other.ID), true
		}
	}
	if !added {
		return before
	}
	return strings.Join(ids, ",")
}

// RelayDelay says that clusters which a hub begins to relay are not shown at once. It is empty
// if a plan changes nothing of that.
func RelayDelay(planned Plan) string {
	for _, step := range planned.Steps {
		if step.Action == GrantRelay || step.Action == AllowRelay {
			return "It takes up to 30 seconds until clusters that the hub relays are shown as members: see `kubectl mcs status`."
		}
	}
	return ""
}
