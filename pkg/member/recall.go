// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/tombstone"
)

// restoreEndpoints returns the endpoints of recalled Services, as far as they were
// imported. A Service that several hubs relay has them with either hub.
func (s *Set) restoreEndpoints(services []exports.Object) []exports.Object {
	var restored []exports.Object
	for _, object := range services {
		for _, slice := range s.config.Endpoints(object.Cluster, object.Service) {
			endpoints, err := exports.FromImport(object.Object.(*clusterset.ExportedService), slice)
			if err != nil {
				klog.Background().Error(err, "Failed to restore endpoints, they are unknown until the member is read",
					"cluster", object.Cluster, "namespace", object.Service.Namespace, "service", object.Service.Name)
				continue
			}
			restored = append(restored, endpoints)
		}
	}
	return restored
}

// EndpointsImported takes the endpoints of a Service of another cluster that were imported
// since this server started, if no source of them has been read since: they had been
// withdrawn, and another replica, which knows them, found that they answer again.
func (s *Set) EndpointsImported(ref exports.Ref) {
	for _, p := range s.unreadWith(ref) {
		s.recoverEndpoints(p, ref)
	}
}

// unreadWith returns the peers that have not been read, and of which a Service of a cluster
// is recorded.
func (s *Set) unreadWith(ref exports.Ref) []*peer {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var found []*peer
	for _, p := range s.peers {
		if p.unreadLocked() && p.exports.Service(ref) != nil {
			found = append(found, p)
		}
	}
	return found
}

// unreadLocked reports whether only what is recorded is known of the endpoints of a peer.
func (p *peer) unreadLocked() bool {
	return p.remembered && !p.read && !p.listed[exports.EndpointSlices]
}

// recoverEndpoints restores what is imported of a Service and not known of a peer.
func (s *Set) recoverEndpoints(p *peer, ref exports.Ref) {
	p.updates.Lock()
	s.mu.RLock()
	store, policy, service := p.exports, s.restorePolicyLocked(p.spec), p.exports.Service(ref)
	s.mu.RUnlock()
	after := func() {}
	if service != nil {
		restored := s.restoreEndpoints([]exports.Object{{Cluster: ref.Cluster, Service: ref.Service, Object: service}})
		if update := store.Recover(restored, policy); update.Len() > 0 {
			after = s.commit(p, store, update, func() bool { return s.peers[p.spec.Name] == p && p.unreadLocked() }, s.evaluateLocked)
		}
	}
	p.updates.Unlock()
	after()
}

// resumeLocked continues with a member that was recalled: when it was last seen, and
// whether it was lost, is known from its Lease.
func (s *Set) resumeLocked(p *peer) {
	now, ttl := s.config.Clock.Now(), p.ttlLocked(s.config.TTL)
	p.resumed, p.assumed = now, s.sightings[p.id].Resumed(p.uid, now, ttl)
	s.shareSightingLocked(p)
	p.relayedSeen = map[string]sighting.Relayed{}
	for id, entry := range p.relayed { // when the hub last saw them is not remembered
		uid := entry.Status.ClusterUID
		p.relayedSeen[id] = sighting.Relayed{UID: uid, Seen: s.sightings[id].Resumed(uid, now, ttl)}
	}
}

// maxGap is the longest time between two ticks of a process that runs.
const maxGap = 3 * feed.ProbeInterval

// wakeLocked notices that this process was frozen, before anything is concluded from the time
// that has passed. That is as if it had been restarted: its own downtime is not the silence of
// members that were not lost before, and another replica may know more of them.
func (s *Set) wakeLocked(now time.Time) {
	if s.ticked.IsZero() || now.Sub(s.ticked) <= maxGap {
		return
	}
	klog.Background().Info("This process did not run for a while, which does not count as a silence of members", "passed", now.Sub(s.ticked))
	s.ticked = now
	for _, p := range s.peers {
		if !p.acceptance.Accepted || p.state == clusterset.MemberLost {
			continue
		}
		p.resumed = now
		if assumed := s.sightingLocked(p).Resumed(p.uid, now, p.ttlLocked(s.config.TTL)); assumed.After(p.assumed) {
			p.assumed = assumed
		}
		if p.lag.since.IsZero() {
			p.lag = lag{since: now}
		}
		for id, entry := range p.relayed {
			if seen := p.relayedSeen[id]; entry.Status.State != clusterset.MemberLost && !seen.Seen.IsZero() {
				seen.Seen = now
				p.relayedSeen[id] = seen
			}
		}
	}
}

// sightingLocked returns when any replica last saw a peer. That is known by the name of its entry:
// of a cluster that a hub relays until it was read, the one with its ID is when the hub saw it.
func (s *Set) sightingLocked(p *peer) sighting.Heard { return s.sightings[p.entryNameLocked()] }

// shareSightingLocked tells a peer when any replica last saw it, and whether it was lost. The
// sighting of another cluster with the same ID does not count.
func (s *Set) shareSightingLocked(p *peer) {
	p.seenElsewhere = time.Time{}
	if seen := s.sightingLocked(p); seen.UID == p.uid {
		p.seenElsewhere = seen.SeenAt(p.ttlLocked(s.config.TTL))
		if seen.Lost { // before this server started, or another replica found out since
			p.resumed = time.Time{}
		}
	}
}

// rebaseLocked corrects times that are in the future because the clock of this process was
// set back. Nothing was seen in the future, and such a time does not tell for how long a member
// has been silent.
func (s *Set) rebaseLocked(now time.Time) {
	for member, seen := range s.sightings {
		s.sightings[member] = seen.Rebase(now)
	}
	for _, p := range s.peers {
		before := p.lastSeenLocked().Round(0) // as it is shown
		p.seenHere, p.resumed, p.assumed = sighting.Rebase(p.seenHere, now), sighting.Rebase(p.resumed, now), sighting.Rebase(p.assumed, now)
		for id, seen := range p.relayedSeen {
			p.relayedSeen[id] = seen.Rebase(now)
		}
		s.shareSightingLocked(p)
		if !p.lastSeenLocked().Round(0).Equal(before) {
			s.refreshLocked(p)
		}
	}
}

func (s *Set) leaseChanged(object any) {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return
	}
	if seen, ok := sighting.FromLease(lease); ok {
		s.observeSighting(seen)
		s.observeLook(seen.Member, seen.UID, sighting.LookFromLease(lease))
	}
}

// leaseDeleted forgets when a cluster that is no longer a member was last seen.
func (s *Set) leaseDeleted(object any) {
	lease, ok := tombstone.Unwrap(object).(*coordinationv1.Lease)
	if !ok {
		return
	}
	seen, ok := sighting.FromLease(lease)
	if !ok {
		return
	}
	s.locked(func() {
		_, routed := s.routes[seen.Member]
		for _, p := range s.peers {
			routed = routed || p.entryNameLocked() == seen.Member
		}
		if !routed {
			delete(s.sightings, seen.Member)
			delete(s.roster.observed, seen.Member)
		}
	})()
}

// observeSighting takes the sighting of any replica.
func (s *Set) observeSighting(seen sighting.Sighting) {
	s.locked(func() {
		now := s.config.Clock.Now()
		s.sightings[seen.Member] = s.sightings[seen.Member].Hear(seen, now)
		for _, p := range s.peers {
			if p.entryNameLocked() != seen.Member {
				continue
			}
			before := p.lastSeenLocked()
			s.shareSightingLocked(p)
			if p.state != p.stateLocked(now, s.config.TTL) {
				s.evaluateLocked()
			} else if s.assessLocked(p, now) || p.lastSeenLocked().After(before) {
				s.refreshLocked(p)
			}
		}
	})()
}
