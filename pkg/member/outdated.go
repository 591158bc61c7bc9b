// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"slices"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
)

// maxBehind limits how long a member that this replica reaches again counts as outdated
// if not everything can be read: its exports are withdrawn when it withdraws them.
const maxBehind = time.Minute

// lag is what this replica may not know of a member, because another one, or this one
// before it was restarted, saw the member later, or because the member was lost.
type lag struct {
	// since is when the member was last seen elsewhere only, or seen again. It is zero if
	// this replica knows all that the member exports.
	since time.Time
	// lost is set if the member was lost until then.
	lost bool
	// contact is when this replica first saw the member after that.
	contact time.Time
}

// assessLocked decides whether what this replica knows of a peer is outdated, and reports
// whether that changed.
func (s *Set) assessLocked(p *peer, now time.Time) (changed bool) {
	before := p.outdated
	switch {
	case p.stateLocked(now, s.config.TTL) == clusterset.MemberStale && p.seenElsewhere.Sub(p.hereLocked()) > 2*feed.ProbeInterval:
		p.lag = lag{since: now}
	case p.caughtUpLocked(now):
		if p.lag.lost && p.spec.Relay.Any() && p.receiver != nil {
			p.receiver.feed.ProbeNow() // what it says about clusters that it relays counts again
		}
		p.lag = lag{}
	}
	p.outdated = !p.lag.since.IsZero() && !p.acceptance.Refused() && s.aliveLocked(p, now)
	return p.outdated != before
}

// caughtUpLocked reports whether this replica knows all that a peer exports, or sees the
// peer without being able to read it.
func (p *peer) caughtUpLocked(now time.Time) bool {
	if p.lag.contact.IsZero() || !p.heardLocked(now) {
		return false
	}
	return now.Sub(p.lag.contact) >= maxBehind || p.followedLocked(exports.Services) && p.followedLocked(exports.EndpointSlices)
}

// followedLocked reports whether the peer was read since this replica lagged behind.
func (p *peer) followedLocked(kind exports.Kind) bool {
	return p.listed[kind] && p.readErrors[kind] == nil && !p.followed[kind].Before(p.lag.since)
}

// contactedLocked notes that this replica sees a peer. A watch that outlived the silence
// may be late: everything is read again. What is known of a peer that was lost is as old as
// the silence, so that endpoints that were withdrawn do not return before it was read.
func (r *receiver) contactedLocked(now time.Time) {
	p := r.peer
	if p.stateLocked(now, r.set.config.TTL) == clusterset.MemberLost {
		p.lag = lag{since: now, lost: true}
	}
	if p.lag.since.IsZero() || !p.lag.contact.IsZero() {
		return
	}
	p.lag.contact = now
	if slices.Contains(p.listed[:], true) { // one kind may be read before the first probe succeeds, and the other one after it
		r.feed.Reread()
	}
}

// aliveLocked reports whether any replica, or this one before it was restarted, has seen
// a peer within its TTL. The UID of a peer that was not read or recalled is unknown.
func (s *Set) aliveLocked(p *peer, now time.Time) bool {
	seen, ttl := s.sightingLocked(p), p.ttlLocked(s.config.TTL)
	anywhere := !seen.Lost && (p.uid == "" || p.uid == seen.UID) && now.Sub(seen.SeenAt(ttl)) < ttl
	return anywhere || now.Sub(p.seenHere) < ttl
}
