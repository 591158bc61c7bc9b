// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// propertiesInterval is how often it is believed that a member has ClusterProperties that it did
// not have before: whatever is exported to clusters by their properties, or imported from them, is
// computed again each time.
const propertiesInterval = 10 * time.Second

// Properties returns the ClusterProperties by which clusters are selected, by their IDs: those of the
// members that are accepted, or were before a restart and have not been read since. Those of clusters
// that a hub relays are not known. Every change is notified. It must not be modified.
func (s *Set) Properties() map[string]map[string]string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.properties
}

// claimedLocked returns the ClusterProperties that a peer claims, as far as it is a member.
func (p *peer) claimedLocked() []clusterset.ClusterProperty {
	if !p.acceptance.Accepted && (!p.remembered || p.acceptance.Refused()) {
		return nil
	}
	return p.properties
}

// believeLocked reports whether other ClusterProperties of a peer are believed than before. What it
// does not claim any more is not believed from then on, so that nothing is exported to it because of
// that. What it claims in addition has to wait if that was so a short time ago.
func (p *peer) believeLocked(now time.Time) (changed bool) {
	claimed := p.claimedLocked()
	known := func(property clusterset.ClusterProperty) bool {
		value, has := p.believed[property.Name]
		return has && value == property.Value
	}
	more := slices.ContainsFunc(claimed, func(property clusterset.ClusterProperty) bool { return !known(property) })
	if !more && len(claimed) == len(p.believed) {
		return false
	}
	// A time in the future is one before the clock was set back.
	passed := now.Sub(p.believedMore)
	wait := more && !p.believedMore.IsZero() && passed >= 0 && passed < propertiesInterval
	next := map[string]string{}
	for _, property := range claimed {
		if !wait || known(property) {
			next[property.Name] = property.Value
		}
	}
	if more && !wait {
		p.believedMore = now
	}
	changed = !maps.Equal(p.believed, next)
	p.believed = next
	return changed
}

// selectByPropertiesLocked replaces the ClusterProperties by which clusters are selected, and
// defers the notification of those that changed.
func (s *Set) selectByPropertiesLocked() {
	before, now := s.properties, map[string]map[string]string{}
	for _, p := range s.peers {
		if len(p.believed) > 0 && (p.acceptance.Accepted || now[p.id] == nil) {
			now[p.id] = p.believed
		}
	}
	if maps.EqualFunc(before, now, maps.Equal) {
		return
	}
	s.properties = now
	for id := range sets.KeySet(before).Union(sets.KeySet(now)) {
		if !maps.Equal(before[id], now[id]) {
			s.deferred = append(s.deferred, func() { s.config.PropertiesChanged(id) })
		}
	}
}
