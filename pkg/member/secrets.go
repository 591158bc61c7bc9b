// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/tombstone"
)

// policyLocked returns which objects of a member are admitted.
func (s *Set) policyLocked(spec *secret.Spec) exports.Policy {
	return exports.Policy{
		Self: s.roster.identity.ID, Member: spec.ClusterID, Relay: spec.Relay, AllowedCIDRs: spec.AllowedCIDRs, JoinedAt: spec.JoinedAt, Limits: spec.Limits,
		AllowedNamespaces: spec.AllowedNamespaces, ReservedNamespaces: s.config.ReservedNamespaces, Ranges: s.config.Ranges, Networks: s.networks,
	}
}

// upsertSecret handles a Secret that was added or modified.
func (s *Set) upsertSecret(ctx context.Context, object any) {
	source, ok := object.(*corev1.Secret)
	if !ok || source.Type != clusterset.MemberSecretType {
		return
	}
	logger := klog.FromContext(ctx)
	spec := secret.Parse(source)
	added := s.newPeer(spec)
	s.locked(func() {
		p, ok := s.peers[spec.Name]
		switch {
		case ok && p.spec.Digest == spec.Digest && p.spec.UID == spec.UID:
			p.renewTokenLocked(ctx, spec.Token)
			return
		case ok && p.id == spec.ClusterID && p.spec.UID == spec.UID:
			logger.Info("Member Secret changed", "cluster", spec.ClusterID, "secret", spec.Name)
			p.spec = spec
			s.deferred = append(s.deferred, func() { s.enforcePolicy(p) })
		default:
			if ok {
				p.stopFeedLocked()
				p.countRefusalsLocked(nil)
				s.forgetLocked(p)
			}
			logger.Info("Member Secret added", "cluster", spec.ClusterID, "secret", spec.Name)
			p = added
			s.addLocked(p)
		}
		s.startFeedLocked(p)
		s.evaluateLocked()
	})()
}

// newPeer returns a peer with what is remembered of its cluster, but not of
// another that claims the same ID.
func (s *Set) newPeer(spec *secret.Spec) *peer {
	s.mu.RLock()
	recalled, ok := s.recalled[spec.ClusterID]
	policy := s.policyLocked(spec)
	s.mu.RUnlock()
	p := &peer{id: spec.ClusterID, spec: spec, exports: exports.NewStore()}
	if !ok || spec.ClusterID == "" || recalled.Secret != "" && recalled.Secret != spec.Name {
		return p
	}
	p.uid, p.claimedAt, p.cidrs, p.remembered = recalled.UID, recalled.ClaimedAt, recalled.CIDRs, true
	p.incomplete = recalled.Incomplete
	if spec.Problem != nil { // enforced as soon as the Secret is valid
		policy.Relay, policy.AllowedCIDRs, policy.AllowedNamespaces, policy.ReservedNamespaces = route.Scope{All: true}, nil, nil, nil
	}
	objects := slices.Concat(recalled.Services, s.restoreEndpoints(recalled.Services))
	p.exports, p.relayed = exports.Restore(objects, policy), recalled.Relayed
	return p
}

// addLocked adds a peer. Another replica may already have heard from its cluster.
func (s *Set) addLocked(p *peer) {
	s.peers[p.spec.Name] = p
	if !s.sharesIDLocked(p) {
		s.recorder.Doubt(p.id)
	}
	if p.remembered {
		delete(s.recalled, p.id)
		s.resumeLocked(p)
	}
	seen, known := s.sightings[p.id]
	if !known || s.recalled == nil {
		return
	}
	p.lag = lag{since: s.config.Clock.Now()}
	if !seen.Lost && (!p.remembered || p.incomplete) {
		p.unrecordedUntil = s.config.Clock.Now().Add(min(p.ttlLocked(s.config.TTL), maxUnrecorded))
	}
}

// maxUnrecorded limits how long nothing is withdrawn because of a member with a long TTL:
// meanwhile, nothing of other members is either.
const maxUnrecorded = time.Minute

// removeSecret handles a Secret that was deleted.
func (s *Set) removeSecret(ctx context.Context, object any) {
	source, ok := tombstone.Unwrap(object).(*corev1.Secret)
	if !ok {
		return
	}
	s.locked(func() {
		p, ok := s.peers[source.Name]
		if !ok {
			return
		}
		klog.FromContext(ctx).Info("Member Secret deleted", "cluster", p.id, "secret", source.Name)
		p.stopFeedLocked()
		p.countRefusalsLocked(nil)
		s.forgetLocked(p)
		delete(s.peers, source.Name)
		delete(s.roster.readers, p.id) // it was a member until now
		s.evaluateLocked()
	})()
}

// forgetLocked removes the recorded exports of a peer, unless another Secret
// leads to the same cluster.
func (s *Set) forgetLocked(p *peer) {
	p.remembered, p.recorded = false, false
	if p.id != "" && !s.sharesIDLocked(p) {
		s.recorder.Forget(p.id)
	}
}

// sharesIDLocked reports whether another Secret is for the same cluster ID.
func (s *Set) sharesIDLocked(p *peer) bool {
	for _, other := range s.peers {
		if other != p && other.id == p.id {
			return true
		}
	}
	return false
}

// startFeedLocked starts a feed for a peer, and ends the previous one.
func (s *Set) startFeedLocked(p *peer) {
	p.stopFeedLocked()
	p.probeError, p.readErrors, p.listed = nil, [exports.Kinds]error{}, [exports.Kinds]bool{}
	if p.spec.Problem != nil || s.base == nil || s.base.Err() != nil {
		return
	}
	r := &receiver{set: s, peer: p}
	r.feed = s.newFeed(feed.Config{
		Name: p.spec.EntryName(), ClusterID: p.id, Self: s.roster.identity.ID, Relay: p.spec.Relay.Any(), MemoryLimit: p.spec.Limits.Bytes,
		Client: p.spec.Config, Token: p.spec.Token, Clock: s.config.Clock, Admit: r.admit, Sink: r,
	})
	ctx, stop := context.WithCancel(klog.NewContext(s.base, klog.FromContext(s.base).WithValues("cluster", p.id)))
	p.receiver, p.stop = r, stop
	s.running.Go(func() {
		defer stop()
		r.feed.Run(ctx)
	})
}
