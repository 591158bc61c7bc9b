// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// evaluate decides anew who takes part and whom to believe, and passes on what
// that changes. It is called with the lock held.
func (r *Registry) evaluate() {
	var candidates []candidate
	for _, peer := range r.peers {
		candidates = append(candidates, candidate{peer.spec, peer.claims, peer.uid, peer.remembered, peer.claimedAt})
	}
	verdicts := judge(r.identity, candidates)
	direct := map[string]bool{}
	var tellers []teller
	for _, peer := range r.peers {
		before := peer.verdict
		peer.verdict = verdicts[peer.spec]
		direct[peer.spec.id] = direct[peer.spec.id] || peer.verdict.refused() || peer.remembered || peer.heard
		was := peer.state
		peer.state = r.stateOf(peer)
		if peer.state == clusterset.MemberLost && was != peer.state {
			r.memory.lost(peer.spec.id, peer.uid, peer.sight())
		}
		switch {
		case peer.verdict.accepted && !before.accepted:
			r.rememberAll(peer)
		case before.accepted && peer.verdict.left():
			r.forget(peer)
		}
		if peer.verdict.accepted {
			tellers = append(tellers, teller{peer, peer.spec, peer.state, peer.lastSeen, peer.relayed})
		}
	}
	old := r.routes
	r.routes = chooseRoutes(r.identity, direct, tellers)
	for cluster := range sets.KeySet(old).Union(sets.KeySet(r.routes)) {
		if before, after := old[cluster], r.routes[cluster]; !before.same(after) {
			for _, key := range append(before.keys(), after.keys()...) {
				r.config.ServiceChanged(key)
			}
		}
	}
	r.parts = r.findParts()
	r.describeAll()
}

// rememberAll writes down what is known of a member that has just been accepted.
func (r *Registry) rememberAll(peer *peer) {
	if !peer.lastSeen.IsZero() {
		r.memory.seen(peer.spec.id, peer.uid, peer.sight())
	}
	for cluster, held := range peer.holdings {
		for key := range held.facts {
			r.remember(peer, cluster, key)
		}
	}
}

// sight is what is written down of a peer besides what it exports.
func (p *peer) sight() sight {
	return sight{at: p.lastSeen, claimedAt: p.claimedAt, secret: p.spec.secret, cidrs: p.cidrs, relayed: p.relayed}
}

func (r *Registry) stateOf(peer *peer) clusterset.MemberState {
	switch {
	case peer.verdict.refused():
		return clusterset.MemberRefused
	case !peer.verdict.accepted:
		return clusterset.MemberConnecting
	}
	last := peer.lastSeen
	if peer.resumed.After(last) {
		last = peer.resumed
	}
	return stateAt(r.config.Clock.Now(), last, r.ttl(peer))
}

func (r *Registry) ttl(peer *peer) time.Duration {
	if peer.spec.ttl > 0 {
		return peer.spec.ttl
	}
	return r.config.TTL
}
