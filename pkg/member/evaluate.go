// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/acceptance"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
)

// evaluationInterval is how often all peers are evaluated because of what members
// report, however many members report something else all the time.
const evaluationInterval = 100 * time.Millisecond

// evaluateSoonLocked evaluates all peers because of what a member reported: at once, unless
// that was done less than an interval ago.
func (s *Set) evaluateSoonLocked() {
	ctx := s.base
	if ctx == nil { // nobody would do it later
		s.evaluateLocked()
		return
	}
	wait, arranged := s.evaluation.Request(s.config.Clock.Now())
	switch {
	case arranged:
	case wait == 0:
		s.evaluateLocked()
	default:
		s.running.Go(func() {
			select {
			case <-ctx.Done():
				return
			case <-s.config.Clock.After(wait):
			}
			s.locked(func() {
				if s.evaluation.Due(s.config.Clock.Now()) {
					s.evaluateLocked()
				}
			})()
		})
	}
}

// evaluateLocked decides which peers are members and which routes are used, and
// passes on what that changes. It is needed only when something changed that
// other peers depend on.
func (s *Set) evaluateLocked() {
	s.evaluations++
	s.evaluation.Done(s.config.Clock.Now())
	candidates := make([]acceptance.Candidate, 0, len(s.peers))
	for _, p := range s.peers {
		candidates = append(candidates, p.candidateLocked())
	}
	results := acceptance.Evaluate(s.roster.identity, candidates)
	direct := map[string]bool{}
	var sources []route.Source[*peer]
	now := s.config.Clock.Now()
	for _, p := range s.peers {
		s.acceptLocked(p, results[p.spec.Name], now)
		p.believeLocked(now)
		direct[p.id] = direct[p.id] || p.acceptance.Excludes() || p.remembered || p.read
		if p.acceptance.Accepted {
			sources = append(sources, route.Source[*peer]{Key: p, ClusterID: p.id, Scope: p.spec.Relay, State: p.state, Relayed: p.relayed})
		}
	}
	s.selectByPropertiesLocked()
	before := s.routes
	s.routes = route.Choose(s.roster.identity, direct, sources)
	maps.Copy(s.routes, s.otherwiseLocked(now))
	for _, p := range s.peers {
		to := s.routes[p.id]
		p.viaHub = to.Entry != nil && (to.Source.remembered && !to.Source.incomplete || to.Source.read)
	}
	s.notifyLocked(rerouted(before, s.routes))
	s.applyLooksLocked(now)
	usable, expelled := s.roster.usable, s.expelled
	s.expelled = expelledLocked(s.peers)
	if s.roster.relateLocked(s.peers, s.routes) || !s.expelled.Equal(expelled) {
		s.deferred = append(s.deferred, func() { s.reconsider(usable, expelled) })
	}
	s.roster.describeLocked(s.peers, s.routes, now)
}

// acceptLocked changes whether a peer is a member, and its state.
func (s *Set) acceptLocked(p *peer, result acceptance.Result, now time.Time) {
	before := p.acceptance
	p.acceptance = result
	p.state = p.stateLocked(now, s.config.TTL)
	s.assessLocked(p, now)
	switch {
	case result.Accepted && !before.Accepted:
		p.recorded = false
		s.deferred = append(s.deferred, func() {
			s.recordAll(p)
			s.recordContact(p)
		})
	case before.Accepted && result.Left():
		s.forgetLocked(p)
	}
}

// expelledLocked returns the IDs of the clusters that are expelled.
func expelledLocked(peers map[string]*peer) sets.Set[string] {
	expelled := sets.New[string]()
	for _, p := range peers {
		if p.spec.Expelled && p.id != "" {
			expelled.Insert(p.id)
		}
	}
	return expelled
}

// reconsider notifies of the Services whose decision about a shared ClusterSet IP was
// believed before the allocation CIDRs or the expelled clusters changed and is not now,
// or the other way round.
func (s *Set) reconsider(usable clustersetip.Allocations, expelled sets.Set[string]) {
	s.mu.RLock()
	before := func(d *clusterset.ClusterSetIPDecision) bool {
		return usable.Believes(d) && !clustersetip.DependsOn(d, expelled)
	}
	now := func(d *clusterset.ClusterSetIPDecision) bool {
		return s.roster.usable.Believes(d) && !clustersetip.DependsOn(d, s.expelled)
	}
	var changed []exports.Ref
	for cluster, route := range s.routes {
		for _, service := range route.Source.exports.Services(cluster) {
			ref := exports.Ref{Cluster: cluster, Service: service}
			if exported := route.Source.exports.Service(ref); exported != nil && exported.Spec.ClusterSetIP != nil &&
				before(exported.Spec.ClusterSetIP) != now(exported.Spec.ClusterSetIP) {
				changed = append(changed, ref)
			}
		}
	}
	s.mu.RUnlock()
	for _, ref := range changed {
		s.config.ServiceChanged(ref)
	}
}

// recordContact records that a member was heard from, if it was.
func (s *Set) recordContact(p *peer) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.recordContactLocked(p)
}

// recordContactLocked records that a member was heard from, if all that it exports is
// known and recorded. What is being updated may not be: the next probe records the contact.
func (s *Set) recordContactLocked(p *peer) {
	if !p.recorded || !p.updates.TryLock() {
		return
	}
	defer p.updates.Unlock()
	if s.peers[p.spec.Name] == p && p.acceptance.Accepted && p.uid != "" && p.currentLocked(s.config.Clock.Now()) {
		s.recorder.RecordContact(p.id, p.uid, p.contactLocked())
	}
}

// doubtLocked leaves the records of members alone from which this replica has not heard
// for a while: another one may have. If another one does, that one should record.
func (s *Set) doubtLocked(now time.Time) {
	for _, p := range s.peers {
		if p.missedLocked(now, s.config.TTL) {
			s.recorder.HandOver()
		}
		if !p.heardLocked(now) && !s.heardLocked(p.id, now) {
			s.recorder.Doubt(p.id)
		}
	}
}

// heardLocked reports whether this replica hears from the cluster with an ID.
func (s *Set) heardLocked(id string, now time.Time) bool {
	for _, p := range s.peers {
		if p.id == id && p.heardLocked(now) {
			return true
		}
	}
	return false
}

// rerouted returns the Services of all clusters whose routes differ.
func rerouted(before, after map[string]route.Route[*peer]) []exports.Ref {
	var services []exports.Ref
	for cluster := range sets.KeySet(before).Union(sets.KeySet(after)) {
		if before[cluster].Same(after[cluster]) {
			continue
		}
		for _, routes := range []map[string]route.Route[*peer]{before, after} {
			if source := routes[cluster].Source; source != nil {
				for _, service := range source.exports.Services(cluster) {
					services = append(services, exports.Ref{Cluster: cluster, Service: service})
				}
			}
		}
	}
	return services
}

// refreshLocked computes the entry of one peer, when nothing changed that the
// others depend on.
func (s *Set) refreshLocked(p *peer) {
	if s.peers[p.spec.Name] == p {
		now := s.config.Clock.Now()
		s.assessLocked(p, now)
		s.roster.replaceLocked(p.name, s.roster.entryLocked(p, now))
	}
}
