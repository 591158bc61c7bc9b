// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
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
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/sighting"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/view"
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
	// tokens are those of the Secret and of the renewed credential, the preferred one first.
	tokens []string
	// receiver is the sink of the feed that is running; nil if none is. stop ends
	// the feed.
	receiver *receiver
	// budget is that of all feeds since the Secret was changed.
	budget *feed.Budget
	stop   context.CancelFunc

	// claims, entry and relayed are what the member reported; nil until it did.
	claims  *identity.Claims
	entry   *clusterset.Member
	relayed map[string]*clusterset.Member
	// relayedSeen is when the clusters that it relays were last seen.
	relayedSeen map[string]sighting.Relayed
	// refusedEntries is how many entries of its members list are refused, completely or in
	// part, and firstEntry describes one of them.
	refusedEntries int
	firstEntry     string
	// probes counts the successful probes.
	probes int
	// seenHere is when this replica last saw the member, and seenElsewhere when any
	// replica did, as far as is known.
	seenHere, seenElsewhere time.Time
	// resumed is when this server started, if the member was not lost before: the
	// downtime of this server is not the silence of the member.
	resumed time.Time
	// assumed is when the member counted as last seen when this server started.
	assumed time.Time
	// uid, claimedAt, cidrs, its allocation CIDRs, and properties are as reported or recalled.
	uid        types.UID
	claimedAt  time.Time
	cidrs      []string
	properties []clusterset.ClusterProperty
	// believed are the ClusterProperties by which it is selected, and believedMore when some were
	// last added. They are replaced, never modified.
	believed     map[string]string
	believedMore time.Time
	// remembered is set if the member was accepted before a restart, and incomplete if
	// not everything that was recorded of it could be read.
	remembered, incomplete bool
	// unrecordedUntil is until when nothing of the member may be withdrawn, because
	// it is unknown what it exported before this server started.
	unrecordedUntil time.Time
	// viaHub is set while a hub of which that is known, or was read, is used for the cluster.
	viaHub bool

	exports *exports.Store
	// recorded is set once all exports were recorded since the member was accepted.
	recorded bool
	rejected [exports.Kinds]*exports.Rejections
	// refusals are the numbers of refused objects by reason, as in the metric.
	refusals map[string]int
	// backdated are new exports that claim to be older than possible, and backdatedTotal is
	// how many there have been.
	backdated      exports.Backdated
	backdatedTotal int
	// errors of the last attempts.
	probeError, claimsError error
	readErrors              [exports.Kinds]error
	// followed is when the present feed last read all objects of a kind or began to watch
	// them anew, and failed when a probe last failed.
	followed [exports.Kinds]time.Time
	failed   time.Time
	attempts [exports.Kinds]attempts
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
	conditions   []metav1.Condition
	mutual       metav1.Condition
	mutualOf     mutualInput
	allocation   *metav1.Condition
	allocationOf allocationInput
	// unassigned is why the allocation CIDRs that the member claims are refused.
	unassigned string
}

// mutualInput is what the condition Mutual was computed from.
type mutualInput struct {
	listing  *view.Listing
	probes   int
	accepted bool
}

// allocationInput is what the condition ClusterSetIP was computed from, besides the
// allocation CIDRs of the members.
type allocationInput struct {
	claim      allocation.Claim
	accepted   bool
	unassigned string
}

func (i allocationInput) equal(other allocationInput) bool {
	return i.accepted == other.accepted && i.unassigned == other.unassigned && i.claim.Equal(other.claim)
}

// ttlLocked returns how long the peer may be silent before it is lost.
func (p *peer) ttlLocked(fallback time.Duration) time.Duration { return cmp.Or(p.spec.TTL, fallback) }

// entryNameLocked returns the name of the entry. Until there is one, that is the cluster ID.
func (p *peer) entryNameLocked() string { return cmp.Or(p.name, p.id) }

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

// lastSeenLocked returns when any replica last saw the peer, or counts as having seen it: the
// time in which all of them were down is not shown as a silence.
func (p *peer) lastSeenLocked() time.Time {
	return slices.MaxFunc([]time.Time{p.seenHere, p.seenElsewhere, p.assumed}, time.Time.Compare)
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

// knownLocked reports whether the peer is, or was before a restart, a member. A member whose
// Secret becomes invalid is silent, not refused.
func (p *peer) knownLocked() bool { return p.acceptance.Accepted || p.remembered }

func (p *peer) candidateLocked() acceptance.Candidate {
	problem := p.spec.Problem
	if p.knownLocked() {
		problem = nil
	}
	return acceptance.Candidate{
		Secret: p.spec.Name, SecretCreated: p.spec.Created.Time, ClusterID: p.id, Problem: problem, Expelled: p.spec.Expelled,
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
	return memory.Contact{ClaimedAt: p.claimedAt, Secret: p.spec.Name, CIDRs: p.cidrs, Properties: p.properties, Relayed: p.relayed}
}

func (p *peer) feedLocked() view.Feed {
	return view.Feed{
		Running: p.receiver != nil, Unrecorded: p.unrecordedLocked(), ProbeError: p.probeError, ClaimsError: p.claimsError, ReadErrors: p.readErrors,
		Listed: p.listed, Unconfirmed: p.exports.Unconfirmed(), Rejected: p.rejected,
		RefusedEntries: p.refusedEntries, FirstEntry: p.firstEntry,
	}
}

// observeLocked takes the entries in a members list. It reports whether anything
// changed that others depend on.
func (p *peer) observeLocked(own *clusterset.Member, entries *response.Entries, now time.Time, ttl time.Duration) (changed bool) {
	p.probes++
	p.refusedEntries, p.firstEntry = entries.Refused, entries.First
	if own != nil {
		changed = p.uid != own.Status.ClusterUID || !slices.Equal(p.cidrs, own.Status.ClusterSetIPCIDRs)
		p.entry, p.uid, p.cidrs, p.properties = own, own.Status.ClusterUID, own.Status.ClusterSetIPCIDRs, own.Status.Properties
	}
	if p.spec.Relay.Any() {
		relayed, seen := map[string]*clusterset.Member{}, map[string]sighting.Relayed{}
		for id, entry := range entries.Members {
			if id != p.id {
				relayed[id], seen[id] = observeRelayed(p.relayed[id], entry, p.relayedSeen[id], now, p.ttlLocked(ttl), p.lag.lost)
			}
		}
		p.relayed, p.relayedSeen = relayed, seen
	}
	return changed
}

// observeRelayed returns the entry of a cluster that a hub relays, and when the cluster was last
// seen, after the hub sent an entry of it. A hub that has not reached the cluster since it was
// restarted says nothing about it: the cluster is as it was before, but silent. So it is if the
// hub was lost, and is unread since: the exports of the cluster are known as of before. And so
// it is if the cluster was lost, and the hub has not read it since, for a minute at most.
func observeRelayed(before, said *clusterset.Member, seen sighting.Relayed, now time.Time, ttl time.Duration, unread bool) (*clusterset.Member, sighting.Relayed) {
	status := &said.Status
	same := before != nil && before.Status.ClusterUID != "" && (status.ClusterUID == "" || status.ClusterUID == before.Status.ClusterUID)
	if same && returns(before, said) && (seen.Back.IsZero() || now.Sub(seen.Back) < maxBehind) {
		if unread = true; seen.Back.IsZero() {
			seen.Back = now
		}
	}
	if !same || status.State != clusterset.MemberConnecting && !unread {
		var at time.Time
		if status.LastSeen != nil {
			at = status.LastSeen.Time
		}
		return said, seen.Observe(status.ClusterUID, at, status.State == clusterset.MemberConnected, now)
	}
	if seen.Seen.IsZero() { // before this server was restarted
		seen = sighting.Relayed{UID: before.Status.ClusterUID, Seen: now}
	}
	silent := *before
	silent.Status.State, silent.Status.Synced, silent.Status.Conditions = liveness.State(now, seen.Seen, time.Time{}, ttl), false, status.Conditions
	return &silent, seen
}

// returns reports whether a cluster that was lost is not any more, and its hub has not read it
// since.
func returns(before, said *clusterset.Member) bool {
	synced := meta.FindStatusCondition(said.Status.Conditions, clusterset.MemberSynced)
	return before.Status.State == clusterset.MemberLost && said.Status.State != clusterset.MemberLost && synced != nil && synced.Reason == clusterset.ReasonOutdated
}

// refusalsLocked returns how much is refused, by reason.
func (p *peer) refusalsLocked(feed view.Feed) map[string]int {
	counts := feed.Refusals()
	if p.unassigned != "" {
		counts[clusterset.ReasonNotAssigned] = 1
	}
	return counts
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

// renewTokensLocked makes the running feed continue with other tokens.
func (p *peer) renewTokensLocked(ctx context.Context, renewed secret.Renewed) {
	tokens := renewed.Tokens(p.spec.Credential, p.spec.Token)
	if slices.Equal(p.tokens, tokens) {
		return
	}
	klog.FromContext(ctx).Info("Peer credential changed", "cluster", p.id, "secret", p.spec.Name)
	p.tokens = tokens
	if p.receiver != nil {
		p.receiver.feed.SetTokens(tokens)
		p.receiver.feed.ProbeNow()
	}
}

// unrecordedLocked reports whether it is unknown what the peer exported before this
// server started. It is known if a hub is used for the cluster, and was.
func (p *peer) unrecordedLocked() bool {
	return !p.unrecordedUntil.IsZero() && !p.viaHub && !p.acceptance.Refused() && (!p.acceptance.Accepted || !p.read)
}
