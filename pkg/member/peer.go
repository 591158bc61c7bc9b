// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/acceptance"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/allocation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/feed"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/memory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/view"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/tombstone"
)

// peer is the cluster that one Secret leads to. Except for updates and id, Set.mu
// guards it.
type peer struct {
	// updates is held while the content of exports changes, and before Set.mu. The
	// content may be read with either of the two, so that a long list is compared
	// with it without Set.mu.
	updates sync.Mutex

	// id is the cluster ID; it never changes.
	id   string
	spec *secret.Spec
	// receiver is the sink of the feed that is running; nil if none is. stop ends
	// the feed.
	receiver *receiver
	stop     context.CancelFunc

	// claims, entry and relayed are what the member reported; nil until it did.
	claims  *identity.Claims
	entry   *clusterset.Member
	relayed map[string]*clusterset.Member
	// probes counts the successful probes.
	probes int
	// seenHere is when this replica last saw the member, and seenElsewhere when any
	// replica did, as far as is known.
	seenHere, seenElsewhere time.Time
	// resumed is when this server started, if the member was not lost before: the
	// downtime of this server is not the silence of the member.
	resumed time.Time
	// uid, claimedAt and cidrs, its allocation CIDRs, are as reported or recalled.
	uid       types.UID
	claimedAt time.Time
	cidrs     []string
	// remembered is set if the member was accepted before a restart, and incomplete if
	// not everything that was recorded of it could be read.
	remembered, incomplete bool
	// unrecordedUntil is until when nothing of the member may be withdrawn, because
	// it is unknown what it exported before this server started.
	unrecordedUntil time.Time

	exports *exports.Store
	// recorded is set once all exports were recorded since the member was accepted.
	recorded bool
	rejected [exports.Kinds]*exports.Rejections
	// refusals are the numbers of refused objects by reason, as in the metric.
	refusals map[string]int
	// backdated are new exports that claim to be older than possible.
	backdated exports.Backdated
	// errors of the last attempts.
	probeError, claimsError error
	readErrors              [exports.Kinds]error
	// followed is when the present feed last read all objects of a kind or began to watch
	// them anew, and failed when a probe last failed.
	followed [exports.Kinds]time.Time
	failed   time.Time
	// listed are the kinds that the present feed has read completely; read is set
	// once any feed has read everything.
	listed [exports.Kinds]bool
	read   bool
	// lag is what this replica may not know. outdated is set meanwhile as long as any
	// replica sees the member.
	lag      lag
	outdated bool

	acceptance acceptance.Result
	state      clusterset.MemberState
	// name is the name of the entry.
	name string
	// conditions are those of the entry, kept for their transition times.
	conditions []metav1.Condition
	mutual     metav1.Condition
	mutualOf   mutualInput
	allocation *metav1.Condition
}

// mutualInput is what the condition Mutual was computed from.
type mutualInput struct {
	listing  *view.Listing
	probes   int
	accepted bool
}

// ttlLocked returns how long the peer may be silent before it is lost.
func (p *peer) ttlLocked(fallback time.Duration) time.Duration { return cmp.Or(p.spec.TTL, fallback) }

// stateLocked returns the state of the peer.
func (p *peer) stateLocked(now time.Time, ttl time.Duration) clusterset.MemberState {
	switch {
	case p.acceptance.Refused():
		return clusterset.MemberRefused
	case !p.acceptance.Accepted:
		return clusterset.MemberConnecting
	}
	return liveness.State(now, p.hereLocked(), p.seenElsewhere, p.ttlLocked(ttl))
}

// hereLocked returns since when this replica has not seen the peer.
func (p *peer) hereLocked() time.Time {
	if p.resumed.After(p.seenHere) {
		return p.resumed
	}
	return p.seenHere
}

// missedLocked reports whether this replica has not seen a member for its TTL, although
// another one has.
func (p *peer) missedLocked(now time.Time, ttl time.Duration) bool {
	return p.stateLocked(now, ttl) == clusterset.MemberStale && now.Sub(p.hereLocked()) >= p.ttlLocked(ttl)
}

// lastSeenLocked returns when any replica last saw the peer.
func (p *peer) lastSeenLocked() time.Time {
	if p.seenElsewhere.After(p.seenHere) {
		return p.seenElsewhere
	}
	return p.seenHere
}

// heardLocked reports whether this replica hears from the peer, and the peer is, or may
// become, the cluster with its ID, or gave that ID up.
func (p *peer) heardLocked(now time.Time) bool {
	return now.Sub(p.seenHere) < liveness.StaleAfter && (!p.acceptance.Refused() || p.acceptance.Left())
}

// catchUp is how long a watch that outlived failed probes may take to pass on what
// happened meanwhile. One that takes longer is ended by the health check of its
// connection.
const catchUp = time.Minute

// currentLocked reports whether this replica knows all Services that the peer exports
// now. After a silence, that is so when they were read or watched anew.
func (p *peer) currentLocked(now time.Time) bool {
	return p.listed[exports.Services] && p.readErrors[exports.Services] == nil && p.heardLocked(now) &&
		(!p.followed[exports.Services].Before(p.failed) || now.Sub(p.failed) >= catchUp)
}

// settledLocked reports whether the peer has been read completely, or is refused.
func (p *peer) settledLocked() bool {
	return p.acceptance.Refused() || p.acceptance.Accepted && p.entry != nil && p.feedLocked().Complete()
}

func (p *peer) candidateLocked() acceptance.Candidate {
	return acceptance.Candidate{
		Secret: p.spec.Name, SecretCreated: p.spec.Created.Time, ClusterID: p.id, Problem: p.spec.Problem, Expelled: p.spec.Expelled,
		Claims: p.claims, ClusterUID: p.uid, Remembered: p.remembered, ClaimedAt: p.joinedLocked(),
	}
}

func (p *peer) allocationLocked() allocation.Claim {
	return allocation.Claim{Cluster: p.id, ClaimedAt: p.joinedLocked(), CIDRs: p.cidrs}
}

// joinedLocked returns since when the peer has claimed its ID in the ClusterSet:
// not before it joined according to its Secret, whatever it reports. It is zero if
// neither is known.
func (p *peer) joinedLocked() time.Time {
	if p.spec.JoinedAt.After(p.claimedAt) {
		return p.spec.JoinedAt
	}
	return p.claimedAt
}

// contactLocked returns what is recorded of the peer besides its exports.
func (p *peer) contactLocked() memory.Contact {
	return memory.Contact{ClaimedAt: p.claimedAt, Secret: p.spec.Name, CIDRs: p.cidrs, Relayed: p.relayed}
}

func (p *peer) feedLocked() view.Feed {
	return view.Feed{
		Running: p.receiver != nil, Unrecorded: p.unrecordedLocked(), ProbeError: p.probeError, ClaimsError: p.claimsError, ReadErrors: p.readErrors,
		Listed: p.listed, Unconfirmed: p.exports.Unconfirmed(), Rejected: p.rejected,
	}
}

// observeLocked takes the entries in a members list. It reports whether anything
// changed that others depend on.
func (p *peer) observeLocked(own *clusterset.Member, entries map[string]*clusterset.Member) (changed bool) {
	p.probes++
	if own != nil {
		changed = p.uid != own.Status.ClusterUID || !slices.Equal(p.cidrs, own.Status.ClusterSetIPCIDRs)
		p.entry, p.uid, p.cidrs = own, own.Status.ClusterUID, own.Status.ClusterSetIPCIDRs
	}
	if p.spec.Relay.Any() {
		p.relayed = map[string]*clusterset.Member{}
		for id, entry := range entries {
			if id != p.id {
				p.relayed[id] = entry
			}
		}
	}
	return changed
}

// rejectedLocked returns how many objects are rejected for one of some reasons.
func (p *peer) rejectedLocked(reasons ...string) (count int) {
	for _, rejected := range p.rejected {
		for _, reason := range reasons {
			count += rejected.For(reason)
		}
	}
	return count
}

// stopFeedLocked ends the feed, whose receiver is ignored from now on.
func (p *peer) stopFeedLocked() {
	if p.stop != nil {
		p.stop()
	}
	p.receiver, p.stop = nil, nil
}

// renewTokenLocked makes the running feed continue with another token.
func (p *peer) renewTokenLocked(ctx context.Context, token string) {
	if p.spec.Token == token {
		return
	}
	klog.FromContext(ctx).Info("Member credential renewed", "cluster", p.id, "secret", p.spec.Name)
	p.spec.Token = token
	if p.receiver != nil {
		p.receiver.feed.SetToken(token)
		p.receiver.feed.ProbeNow()
	}
}

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

// unrecordedLocked reports whether it is unknown what the peer exported before this
// server started.
func (p *peer) unrecordedLocked() bool {
	return !p.unrecordedUntil.IsZero() && !p.acceptance.Refused() && (!p.acceptance.Accepted || !p.read)
}

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
