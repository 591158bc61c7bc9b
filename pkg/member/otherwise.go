// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
)

// otherwiseLocked returns the routes to clusters that are lost to their hubs, or with them, as
// they are if the clusters are seen otherwise. Another replica may have read a cluster itself, or this one
// may see it without being able to read it. Such a cluster is stale, not lost.
func (s *Set) otherwiseLocked(now time.Time) map[string]route.Route[*peer] {
	routes := map[string]route.Route[*peer]{}
	for id, to := range s.routes {
		if to.Lost() {
			to.State, to.Seen, to.Elsewhere = clusterset.MemberLost, time.Time{}, false
			routes[id] = to
		}
	}
	for _, p := range s.peers { // those that are not used, because they were not read
		to, lost := routes[p.id]
		if lost && p.uid != "" && p.uid == to.Entry.Status.ClusterUID && !p.acceptance.Refused() && p.lastSeenLocked().After(to.Seen) {
			to.Seen = p.lastSeenLocked()
			routes[p.id] = to
		}
	}
	for id, to := range routes {
		routes[id] = s.elsewhereLocked(to, now)
	}
	return routes
}

// elsewhereLocked returns a route to a cluster that is lost to its hub, with when any replica
// last saw the cluster. The Lease with its ID is renewed by those that have read it, and those
// that see it through the hub: only a sighting that the hub did not have counts.
func (s *Set) elsewhereLocked(to route.Route[*peer], now time.Time) route.Route[*peer] {
	seen, ttl := s.sightings[to.Cluster], to.Source.ttlLocked(s.config.TTL)
	here := now.Sub(to.Seen) < ttl
	if at := seen.SeenAt(ttl); seen.UID != "" && seen.UID == to.Entry.Status.ClusterUID && at.After(to.Seen) {
		to.Elsewhere = !seen.Lost && at.Sub(lastSeenLocked(to)) > 2*feed.ProbeInterval && now.Sub(at) < ttl
		to.Seen = at
	}
	if here || to.Elsewhere {
		to.State = clusterset.MemberStale
	}
	return to
}

// seenOtherwiseLocked reports whether any cluster that is lost to its hub was seen, or is not any
// more.
func (s *Set) seenOtherwiseLocked(now time.Time) bool {
	for id, to := range s.otherwiseLocked(now) {
		before := s.routes[id]
		if to.State != before.State || to.Elsewhere != before.Elsewhere || !to.Seen.Equal(before.Seen) {
			return true
		}
	}
	return false
}
