// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/view"
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

// resumeLocked continues with a member that was recalled: when it was last seen, and
// whether it was lost, is known from its Lease.
func (s *Set) resumeLocked(p *peer) {
	s.shareSightingLocked(p)
	if seen := s.sightings[p.id]; seen.UID != p.uid || !seen.Lost {
		p.resumed = s.config.Clock.Now()
	}
	relayed := maps.Clone(p.relayed)
	for id, entry := range relayed { // when the hub last saw them is not remembered
		if seen := s.sightings[id]; seen.UID == entry.Status.ClusterUID && !seen.At.IsZero() {
			copied := *entry
			copied.Status.LastSeen = view.Timestamp(seen.At)
			relayed[id] = &copied
		}
	}
	p.relayed = relayed
}

// shareSightingLocked tells a peer when any replica last saw it. The sighting of
// another cluster with the same ID does not count.
func (s *Set) shareSightingLocked(p *peer) {
	p.seenElsewhere = time.Time{}
	if seen := s.sightings[p.id]; seen.UID == p.uid {
		p.seenElsewhere = seen.At
	}
}

func (s *Set) leaseChanged(object any) {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return
	}
	if seen, ok := sighting.FromLease(lease); ok {
		s.observeSighting(seen)
	}
}

// observeSighting takes the sighting of any replica. The clock of another replica may
// be ahead: nothing was seen in the future.
func (s *Set) observeSighting(seen sighting.Sighting) {
	s.locked(func() {
		now := s.config.Clock.Now()
		if seen.At.After(now) {
			seen.At = now
		}
		s.sightings[seen.Member] = seen
		for _, p := range s.peers {
			if p.id != seen.Member {
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
