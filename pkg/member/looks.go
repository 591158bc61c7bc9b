// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
)

// observedLook is what mcs-controller found about the endpoints of a cluster, and when this
// process heard of it.
type observedLook struct {
	uid   types.UID
	look  *liveness.Look
	heard time.Time
}

// at returns the look if it was one at a cluster that was last seen at a time. It is past if
// the cluster was seen since.
func (o observedLook) at(uid types.UID, lastSeen time.Time) *liveness.Look {
	switch {
	case o.uid != uid:
		return nil
	case o.look.IsPresent() && o.heard.Before(lastSeen):
		past := *o.look
		past.Past = true
		return &past
	}
	return o.look
}

// observeLook takes what mcs-controller found about the endpoints of a member, nil if it
// has not looked.
func (s *Set) observeLook(member string, uid types.UID, look *liveness.Look) {
	s.locked(func() {
		before, now := s.roster.observed[member], s.config.Clock.Now()
		if before.uid == uid && before.look.Same(look) && (look == nil || before.look.At.Equal(look.At)) {
			return
		}
		s.roster.observed[member] = observedLook{uid, look, now}
		if s.applyLooksLocked(now) {
			s.evaluateLocked()
			return
		}
		for _, p := range s.peers {
			if p.entryNameLocked() == member {
				s.refreshLocked(p)
			}
		}
	})()
}

// applyLooksLocked determines which looks decide: those at clusters that have been silent
// for their TTL, which count. It reports whether that changed, and defers the notification
// of the Services whose state depends on it.
func (s *Set) applyLooksLocked(now time.Time) (changed bool) {
	looks := map[string]*liveness.Look{}
	for cluster, route := range s.routes {
		if route.State != clusterset.MemberLost {
			continue
		}
		uid := route.Source.uid
		if route.Entry != nil {
			uid = route.Entry.Status.ClusterUID
		}
		if look := s.roster.observed[cluster].at(uid, lastSeenLocked(route)); look.IsPresent() && !overdueLocked(route, s.config.TTL, now) {
			looks[cluster] = look
		}
	}
	before := s.roster.looks
	if maps.Equal(before, looks) {
		return false
	}
	s.roster.looks = looks
	for cluster := range sets.KeySet(before).Union(sets.KeySet(looks)) {
		if before[cluster] != looks[cluster] {
			s.notifyLocked(rejudged(s.routes[cluster], before[cluster], looks[cluster]))
		}
	}
	return true
}

// overdueLocked reports whether the cluster that a route leads to has been silent for so long
// that its endpoints are not kept.
func overdueLocked(to route.Route[*peer], ttl time.Duration, now time.Time) bool {
	return to.State == clusterset.MemberLost && liveness.Overdue(now, lastSeenLocked(to), to.Source.ttlLocked(ttl))
}

// overdueChangedLocked reports whether a cluster is overdue, and not shown as such.
func (s *Set) overdueChangedLocked(now time.Time) bool {
	for cluster, route := range s.routes {
		if entry := s.roster.entries[cluster]; entry != nil && !entry.Status.Overdue && overdueLocked(route, s.config.TTL, now) {
			return true
		}
	}
	return false
}

// rejudged returns the Services of a cluster for which two looks differ.
func rejudged(route route.Route[*peer], before, after *liveness.Look) []exports.Ref {
	var services []exports.Ref
	if route.Source == nil {
		return nil
	}
	for _, service := range route.Source.exports.Services(route.Cluster) {
		if before.KeepsService(service.String()) != after.KeepsService(service.String()) {
			services = append(services, exports.Ref{Cluster: route.Cluster, Service: service})
		}
	}
	return services
}

// unavailableLocked reports whether the Kubernetes API of a peer responds, but not the one
// of mcs-apiserver, to any replica.
func (p *peer) unavailableLocked(now time.Time) bool {
	return response.Unavailable(p.probeError) && !p.seenElsewhereLocked(now)
}

// sharedWithin is how old the newest sighting of a peer that another replica sees can be:
// it is shared every ten seconds.
const sharedWithin = 2 * liveness.StaleAfter

// seenElsewhereLocked reports whether another replica sees a peer that this one does not.
// Of replicas that lose a peer together, one saw it last by chance.
func (p *peer) seenElsewhereLocked(now time.Time) bool {
	return p.seenElsewhere.Sub(p.hereLocked()) > 2*feed.ProbeInterval && now.Sub(p.seenElsewhere) < sharedWithin
}

// shownLocked returns the state that is shown of a peer, and whether it has been silent for
// its TTL, and for so long that nothing is kept.
func (r *roster) shownLocked(p *peer, now time.Time) (state clusterset.MemberState, expired, overdue bool) {
	state = p.stateLocked(now, r.config.TTL)
	expired = state == clusterset.MemberLost
	overdue = expired && liveness.Overdue(now, p.lastSeenLocked(), p.ttlLocked(r.config.TTL))
	return liveness.Shown(state, p.unavailableLocked(now), r.looks[p.name]), expired, overdue
}

// showRelayedLocked sets the state of a cluster that a hub relays: what this cluster found
// about its endpoints counts, not what the hub did.
func (r *roster) showRelayedLocked(entry *clusterset.Member, to route.Route[*peer], now time.Time) {
	status := &entry.Status
	status.State, status.Expired = liveness.Shown(to.State, false, r.looks[entry.Name]), to.State == clusterset.MemberLost
	status.Overdue = overdueLocked(to, r.config.TTL, now)
}
