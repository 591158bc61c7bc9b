// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// Export is a Service as one cluster exports it, together with the state of that cluster. A
// cluster is stale as long as the endpoints of the Service are kept.
type Export struct {
	clusterset.Export
	State    clusterset.MemberState
	LastSeen time.Time
}

// Exports returns a Service as the members export it, one per cluster.
func (s *Set) Exports(service types.NamespacedName) []Export {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var exports []Export
	for cluster, route := range s.routes {
		if export := route.Source.exports.Export(cluster, service); export != nil {
			exports = append(exports, Export{*export, liveness.ShownFor(service.String(), route.State, s.roster.looks[cluster]), lastSeenLocked(route)})
		}
	}
	return exports
}

// Allocations returns the allocation CIDRs of all clusters that may allocate shared
// ClusterSet IPs. It must not be modified.
func (s *Set) Allocations() clustersetip.Allocations {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.roster.usable
}

// Expelled returns the IDs of the clusters that are expelled. It must not be modified.
func (s *Set) Expelled() sets.Set[string] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.expelled
}

// Services returns all Services that any member exports.
func (s *Set) Services() []types.NamespacedName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	services := sets.New[types.NamespacedName]()
	for cluster, route := range s.routes {
		services.Insert(route.Source.exports.Services(cluster)...)
	}
	return services.UnsortedList()
}

// ServicesOf returns the Services that a cluster exports.
func (s *Set) ServicesOf(cluster string) []types.NamespacedName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if source := s.routes[cluster].Source; source != nil {
		return source.exports.Services(cluster)
	}
	return nil
}

// Entry returns an entry of the members list, nil if it does not exist. It must
// not be modified.
func (s *Set) Entry(name string) *clusterset.Member {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.roster.entries[name]
}

// Visible returns how many Services and endpoints of what an entry of the members list counts
// another cluster can read, and false if there is no such entry any more.
func (s *Set) Visible(name, reader string) (exports, endpoints int32, known bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	counts, known := s.countsLocked(name)
	exports, endpoints = counts.VisibleTo(reader)
	return exports, endpoints, known
}

// countsLocked returns what an entry counts, and false if there is no such entry. The counts may
// be nil.
func (s *Set) countsLocked(name string) (*exports.Counts, bool) {
	if name == s.roster.identity.ID {
		return s.roster.local, true
	}
	if to := s.routes[name]; to.Entry != nil {
		return to.Source.exports.Counts(name), true
	}
	if p := s.roster.named[name]; p != nil {
		return p.exports.Counts(p.id), true
	}
	return nil, false
}

// Names returns the names of all entries of the members list.
func (s *Set) Names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.roster.entries))
}

// Settled reports whether every member has been read completely, and what was read
// is in use: nothing that is known comes from memory alone.
func (s *Set) Settled() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.evaluation.Pending() {
		return false
	}
	for _, p := range s.peers {
		if !p.settledLocked() {
			return false
		}
	}
	return true
}

// ReadElsewhere reports whether another replica sees a member that this one neither sees
// nor has read completely: that one may know exports of which this one does not.
func (s *Set) ReadElsewhere() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	now := s.config.Clock.Now()
	for _, p := range s.peers {
		seen, ttl := s.sightingLocked(p), p.ttlLocked(s.config.TTL)
		if !p.settledLocked() && !p.heardLocked(now) && (p.uid == "" || p.uid == seen.UID) && !seen.Lost && now.Sub(seen.SeenAt(ttl)) < ttl {
			return true
		}
	}
	return false
}
