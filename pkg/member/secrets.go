// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
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

// restorePolicyLocked returns which objects of a member are restored after a restart. What a
// Secret that is invalid allows is enforced as soon as it is valid.
func (s *Set) restorePolicyLocked(spec *secret.Spec) exports.Policy {
	policy := s.policyLocked(spec)
	if spec.Problem != nil {
		policy.Relay, policy.AllowedCIDRs, policy.AllowedNamespaces, policy.ReservedNamespaces = route.Scope{All: true}, nil, nil, nil
	}
	return policy
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
			p.spec.Token, p.spec.Credential = spec.Token, spec.Credential
			p.renewTokensLocked(ctx, s.renewed[spec.Name])
			return
		case ok && p.spec.UID == spec.UID && (p.id == spec.ClusterID || spec.ClusterID == "" && p.knownLocked()):
			logger.Info("Member Secret changed", "cluster", p.id, "secret", spec.Name, "invalid", spec.Problem != nil)
			if spec.Problem != nil && p.knownLocked() {
				spec = p.spec.Broken(spec)
			}
			p.spec, p.budget = spec, nil
			s.deferred = append(s.deferred, func() { s.enforcePolicy(p) })
		default:
			if ok {
				p.stopFeedLocked()
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

// upsertRenewed handles a renewed credential that was added or modified. It may arrive
// before or after the change of the member Secret that it was renewed from.
func (s *Set) upsertRenewed(ctx context.Context, object any) {
	if source, ok := object.(*corev1.Secret); ok && source.Type == clusterset.RenewedSecretType {
		s.setRenewed(ctx, source.Name, secret.ParseRenewed(source))
	}
}

// removeRenewed handles a renewed credential that was deleted.
func (s *Set) removeRenewed(ctx context.Context, object any) {
	if source, ok := tombstone.Unwrap(object).(*corev1.Secret); ok && source.Type == clusterset.RenewedSecretType {
		s.setRenewed(ctx, source.Name, nil)
	}
}

func (s *Set) setRenewed(ctx context.Context, name string, renewed secret.Renewed) {
	s.locked(func() {
		member, ok := clusterset.MemberSecretOf(name)
		if !ok {
			return
		}
		if s.renewed[member] = renewed; renewed == nil {
			delete(s.renewed, member)
		}
		if p, ok := s.peers[member]; ok {
			p.renewTokensLocked(ctx, renewed)
		}
	})()
}

// newPeer returns a peer with what is remembered of its cluster, but not of
// another that claims the same ID.
func (s *Set) newPeer(spec *secret.Spec) *peer {
	s.mu.RLock()
	recalled, ok := s.recalled[spec.ClusterID]
	policy := s.restorePolicyLocked(spec)
	s.mu.RUnlock()
	p := &peer{id: spec.ClusterID, spec: spec, exports: exports.NewStore()}
	if !ok || spec.ClusterID == "" || recalled.Secret != "" && recalled.Secret != spec.Name {
		return p
	}
	p.uid, p.claimedAt, p.cidrs, p.properties, p.remembered = recalled.UID, recalled.ClaimedAt, recalled.CIDRs, recalled.Properties, true
	p.incomplete = recalled.Incomplete
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
	if _, known := s.sightings[p.id]; !known || s.recalled == nil {
		return
	}
	p.lag = lag{since: s.config.Clock.Now()}
	if (!p.remembered || p.incomplete) && !s.withdrawnLocked(p) {
		p.unrecordedUntil = s.config.Clock.Now().Add(min(p.ttlLocked(s.config.TTL), maxUnrecorded))
	}
}

// withdrawnLocked reports whether a member was lost before this server started, and all of its
// endpoints are known to have been withdrawn since: none of them answered, and its policy does
// not keep them.
func (s *Set) withdrawnLocked(p *peer) bool {
	seen := s.sightings[p.id]
	look := s.roster.observed[p.id].at(seen.UID, time.Time{})
	policy := cmp.Or(p.spec.LostPolicy, s.config.LostPolicy)
	return seen.Lost && look.IsPresent() && !look.Keeps() && policy != clusterset.LostPolicyKeep && policy != clusterset.LostPolicyKeepLast
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

// budgetLocked returns the budget of the feeds of a peer.
func (p *peer) budgetLocked() *feed.Budget {
	if p.budget == nil {
		p.budget = feed.NewBudget(p.spec.Limits.Bytes)
	}
	return p.budget
}

// startFeedLocked starts a feed for a peer, and ends the previous one.
func (s *Set) startFeedLocked(p *peer) {
	p.stopFeedLocked()
	p.probeError, p.readErrors, p.listed = nil, [exports.Kinds]error{}, [exports.Kinds]bool{}
	p.tokens = s.renewed[p.spec.Name].Tokens(p.spec.Credential, p.spec.Token)
	if p.spec.Problem != nil || s.base == nil || s.base.Err() != nil {
		return
	}
	r := &receiver{set: s, peer: p}
	r.feed = s.newFeed(feed.Config{
		Name: p.spec.EntryName(), ClusterID: p.id, Self: s.roster.identity.ID, Relay: p.spec.Relay.Any(), MemoryLimit: p.spec.Limits.Bytes, Budget: p.budgetLocked(),
		Client: p.spec.Config, Tokens: p.tokens, Clock: s.config.Clock, Admit: r.admit, Sink: r,
	})
	ctx, stop := context.WithCancel(klog.NewContext(s.base, klog.FromContext(s.base).WithValues("cluster", p.id)))
	p.receiver, p.stop = r, stop
	s.running.Go(func() {
		defer stop()
		r.feed.Run(ctx)
	})
}
