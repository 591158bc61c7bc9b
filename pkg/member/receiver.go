// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"slices"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/acceptance"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
)

// receiver is the sink of one feed. It is ignored once the peer has another feed.
type receiver struct {
	set  *Set
	peer *peer
	feed source
}

var _ feed.Sink = &receiver{}

func (r *receiver) currentLocked() bool { return r.peer.receiver == r }

// exports returns the exports of the peer, nil if the receiver is outdated, and
// its policy.
func (r *receiver) exports() (*exports.Store, exports.Policy) {
	r.set.mu.RLock()
	defer r.set.mu.RUnlock()
	if !r.currentLocked() {
		return nil, exports.Policy{}
	}
	return r.peer.exports, r.set.policyLocked(r.peer.spec)
}

// admit applies the present policy to an object.
func (r *receiver) admit(object exports.Object) exports.Arrival {
	r.set.mu.RLock()
	policy := r.set.policyLocked(r.peer.spec)
	r.set.mu.RUnlock()
	return policy.Admit(object)
}

// update changes the exports of the peer: compute reads them without the lock,
// and change runs with the lock held after they changed.
func (r *receiver) update(compute func(*exports.Store, exports.Policy) exports.Update, change func(exports.Update)) {
	r.peer.updates.Lock()
	after := func() {}
	if store, policy := r.exports(); store != nil {
		used := store.Usage()
		update := compute(store, policy)
		after = r.set.commit(r.peer, store, update, r.currentLocked, func() {
			change(update)
			if r.peer.exports.Usage().Bytes < used.Bytes && r.peer.rejectedLocked(exports.LimitReasons()...) > 0 {
				r.feed.Reread() // there may be room for objects that were not kept
			}
		})
	}
	r.peer.updates.Unlock()
	after()
}

// Replace implements feed.Sink.
func (r *receiver) Replace(kind exports.Kind, arrivals []exports.Arrival) {
	p := r.peer
	var rejected *exports.Rejections
	var known map[exports.Key]bool
	first := r.first(kind)
	r.update(func(store *exports.Store, policy exports.Policy) exports.Update {
		for i, arrival := range arrivals {
			arrivals[i] = policy.Readmit(arrival)
		}
		known = store.Known(arrivals)
		for _, arrival := range arrivals {
			// Before the member could be read, or this server ran, or before the slice was admitted.
			early := first || arrival.Reread && !known[arrival.Object.Key()]
			if slice, ok := arrival.Object.Object.(*clusterset.ExportedEndpointSlice); ok && early {
				slice.Spec.ChangedAt = nil
			}
		}
		update := store.Fit(store.Replace(p.id, kind, arrivals), policy.Limits)
		rejected = exports.NewRejections(slices.Concat(arrivals, update.Refused()))
		return update
	}, func(update exports.Update) {
		if p.listed[kind] { // what the first list of a feed has may be old
			r.dateLocked(arrivals, known, p.followed[exports.Services])
		}
		p.rejected[kind], p.listed[kind] = rejected, true
		r.followedLocked(kind, nil)
		if update.Doubts() {
			r.feed.ProbeNow()
		}
		if complete := p.listed == [exports.Kinds]bool{true, true}; complete && !p.read || p.spec.Relay.Any() {
			p.read = p.read || complete
			r.set.evaluateSoonLocked() // the routes may lead through this peer now
			return
		}
		r.set.refreshLocked(p)
	})
}

// first reports whether the feed has not read all objects of a kind yet.
func (r *receiver) first(kind exports.Kind) bool {
	r.set.mu.RLock()
	defer r.set.mu.RUnlock()
	return !r.peer.listed[kind]
}

// Upsert implements feed.Sink.
func (r *receiver) Upsert(arrival exports.Arrival) {
	var known map[exports.Key]bool
	r.update(func(store *exports.Store, policy exports.Policy) exports.Update {
		arrival = policy.Readmit(arrival)
		known = store.Known([]exports.Arrival{arrival})
		return store.Fit(store.Upsert(arrival), policy.Limits)
	}, func(update exports.Update) {
		for _, refused := range update.Refused() {
			arrival = refused
		}
		r.rejectLocked(arrival)
		r.dateLocked([]exports.Arrival{arrival}, known, r.set.config.Clock.Now())
		if (update.Len() > 0 || arrival.Err != nil) && r.peer.exports.Unconfirmed() > 0 {
			r.feed.ProbeNow() // an earlier count does not include the object
		}
		r.set.refreshLocked(r.peer)
	})
}

// Remove implements feed.Sink.
func (r *receiver) Remove(object exports.Object) {
	r.update(func(store *exports.Store, _ exports.Policy) exports.Update { return store.Remove(object) }, func(exports.Update) {
		r.rejectLocked(exports.Arrival{Object: object})
		r.set.refreshLocked(r.peer)
	})
}

// dateLocked records which objects are exports that claim to be older than
// possible. known are the objects that were exported before, and complete the last
// time at which all exports of the member were known.
func (r *receiver) dateLocked(arrivals []exports.Arrival, known map[exports.Key]bool, complete time.Time) {
	p := r.peer
	p.backdatedTotal += p.backdated.Observe(p.exports, p.id, arrivals, known, complete)
}

// rejectLocked records whether an object is rejected now.
func (r *receiver) rejectLocked(arrival exports.Arrival) {
	rejected := &r.peer.rejected[arrival.Object.Kind]
	if *rejected == nil {
		*rejected = exports.NewRejections(nil)
	}
	(*rejected).Observe(arrival)
}

// ifCurrent runs change with the lock held, unless the receiver is outdated.
func (r *receiver) ifCurrent(change func()) {
	r.set.locked(func() {
		if r.currentLocked() {
			change()
		}
	})()
}

// ReadFailed implements feed.Sink.
func (r *receiver) ReadFailed(kind exports.Kind, err error) {
	r.ifCurrent(func() {
		r.followedLocked(kind, err)
		r.set.refreshLocked(r.peer)
	})
}

// followedLocked records the outcome of an attempt to list or watch one kind.
func (r *receiver) followedLocked(kind exports.Kind, err error) {
	s, p := r.set, r.peer
	p.readErrors[kind] = err
	if err == nil {
		p.followed[kind] = s.config.Clock.Now()
		p.attempts[kind].succeeded++
	} else {
		p.attempts[kind].failed++
	}
	if kind == exports.Services && err == nil {
		s.deferred = append(s.deferred, func() { s.recordContact(p) })
	}
}

// ClaimsRead implements feed.Sink. A cluster cannot lose its ID: an answer
// without one says nothing about a member that had one.
func (r *receiver) ClaimsRead(claims identity.Claims) {
	r.ifCurrent(func() {
		p := r.peer
		if claims.ID == "" && p.acceptance.Accepted {
			return
		}
		if p.claims != nil && *p.claims == claims {
			return
		}
		p.claims, p.claimedAt = &claims, claims.ClaimedAt
		r.set.evaluateSoonLocked()
	})
}

// ClaimsFailed implements feed.Sink.
func (r *receiver) ClaimsFailed(err error) {
	r.ifCurrent(func() {
		r.peer.claimsError = err
		r.set.refreshLocked(r.peer)
	})
}

// Probed implements feed.Sink.
func (r *receiver) Probed(entries *response.Entries, err error) {
	s, p := r.set, r.peer
	r.ifCurrent(func() {
		now := s.config.Clock.Now()
		p.probeError = err
		changed := false
		if err != nil {
			p.failed = now
		} else {
			r.contactedLocked(now)
			p.seenHere = now
			own := entries.Members[p.id]
			if own != nil && (own.Status.State != clusterset.MemberLocal || own.Status.ClusterUID == "") {
				own = nil // the entry of another cluster, or of an unknown one
			}
			if own != nil && p.uid != "" && p.uid != own.Status.ClusterUID {
				r.resetLocked()
			}
			changed = p.observeLocked(own, entries, now, s.config.TTL)
			if p.believeLocked(now) {
				s.selectByPropertiesLocked()
			}
			s.shareSightingLocked(p)
			s.recordContactLocked(p)
		}
		if changed || p.spec.Relay.Any() || p.state != p.stateLocked(now, s.config.TTL) {
			s.evaluateSoonLocked()
			return
		}
		p.relateLocked(s.roster.listing)
		s.refreshLocked(p)
	})
	if err == nil {
		r.confirm(entries.Members)
	}
}

// confirm removes objects that the member no longer lists, if the entries in a
// members list confirm that they are gone.
func (r *receiver) confirm(members map[string]*clusterset.Member) {
	p := r.peer
	if store, _ := r.exports(); store == nil || r.unconfirmed() == 0 {
		return
	}
	r.update(func(store *exports.Store, _ exports.Policy) exports.Update {
		if r.feed.ProbePending() {
			return exports.Update{} // the list may be older than the doubt
		}
		return store.Confirm(p.id, members, p.rejected)
	}, func(update exports.Update) {
		if update.Len() > 0 && p.spec.Relay.Any() {
			r.set.evaluateSoonLocked() // the entries of relayed clusters count objects, too
			return
		}
		r.set.refreshLocked(p)
	})
}

func (r *receiver) unconfirmed() int {
	r.set.mu.RLock()
	defer r.set.mu.RUnlock()
	return r.peer.exports.Unconfirmed()
}

// resetLocked empties a peer whose cluster ID now belongs to another cluster,
// which inherits nothing.
func (r *receiver) resetLocked() {
	s, p := r.set, r.peer
	s.notifyLocked(routed(s.routes, p, p.exports.Refs()))
	p.exports = exports.NewStore()
	s.forgetLocked(p)
	p.read, p.acceptance = false, acceptance.Result{Reason: acceptance.ReasonUnknown}
	p.claims, p.claimedAt, p.cidrs, p.backdated = nil, time.Time{}, nil, exports.Backdated{}
	// What the feed has read since may be of either cluster.
	s.startFeedLocked(p)
}
