// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// assessLocked decides whether what this replica knows of a peer is outdated, and reports
// whether that changed.
func (s *Set) assessLocked(p *peer, now time.Time) (changed bool) {
	before := p.outdated
	switch {
	case p.stateLocked(now, s.config.TTL) == clusterset.MemberStale && p.seenElsewhere.After(p.hereLocked()):
		p.behind = true
	case p.read && p.currentLocked(now):
		p.behind = false
	}
	keep := cmp.Or(p.spec.LostPolicy, s.config.LostPolicy) == clusterset.LostPolicyKeep
	p.outdated = p.behind && !p.acceptance.Refused() && (keep || s.aliveLocked(p, now))
	return p.outdated != before
}

// aliveLocked reports whether any replica, or this one before it was restarted, has seen
// a peer within its TTL. The UID of a peer that was not read or recalled is unknown.
func (s *Set) aliveLocked(p *peer, now time.Time) bool {
	seen, ttl := s.sightings[p.id], p.ttlLocked(s.config.TTL)
	anywhere := !seen.Lost && (p.uid == "" || p.uid == seen.UID) && now.Sub(seen.At) < ttl
	return anywhere || now.Sub(p.seenHere) < ttl
}
