// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"maps"
	"slices"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/allocation"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/response"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/view"
)

// roster is the members list, and what it is computed from besides the peers.
// Set.mu guards it.
type roster struct {
	config   *Config
	identity identity.Cluster
	// local is how much this cluster exports itself.
	local *exports.Counts
	// kubernetesVersion and properties are what this cluster tells about itself. The latter are
	// replaced, never modified.
	kubernetesVersion string
	properties        []clusterset.ClusterProperty
	// entries are replaced, never modified. changed are the names of those that
	// were replaced since the lock was taken.
	entries map[string]*clusterset.Member
	changed []string
	// named are the peers that have an entry, by its name.
	named   map[string]*peer
	listing *view.Listing
	// allocations are the allocation CIDRs of all clusters, sorted by cluster, and
	// conflicts those that overlap.
	allocations []allocation.Claim
	conflicts   allocation.Conflicts
	// usable are the allocation CIDRs without those of clusters with a conflict. It is
	// replaced, never modified.
	usable  clustersetip.Allocations
	readers readers
	// unlisted are the readers that are not members, as shown in the own entry.
	unlisted []string
	// ownConditions are those of the own entry, kept for their transition times.
	ownConditions []metav1.Condition
	// observed is what was last found about the endpoints of clusters, and looks what of
	// it decides now. The latter is replaced, never modified.
	observed map[string]observedLook
	looks    map[string]*liveness.Look
}

func newRoster(config *Config) roster {
	return roster{config: config, local: &exports.Counts{}, entries: map[string]*clusterset.Member{}, listing: &view.Listing{}, readers: readers{}, observed: map[string]observedLook{}}
}

// relateLocked updates what depends on all clusters together: which of them are
// members, and whether their allocation CIDRs conflict. It reports whether the
// allocation CIDRs changed.
func (r *roster) relateLocked(peers map[string]*peer, routes map[string]route.Route[*peer]) (reallocated bool) {
	if listing := newListing(r.identity, peers, routes); !listing.Equal(r.listing) {
		r.listing = listing
	}
	claims := r.claimsLocked(peers, routes)
	if reallocated = !slices.EqualFunc(claims, r.allocations, allocation.Claim.Equal); reallocated {
		r.allocations, r.conflicts = claims, allocation.NewConflicts(claims)
		r.usable = r.conflicts.Usable(claims)
	}
	for _, p := range peers {
		p.relateLocked(r.listing)
		r.allocateLocked(p, reallocated)
	}
	return reallocated
}

// claimsLocked returns the allocation CIDRs that this cluster, its members and the
// clusters that hubs relay claim, sorted by cluster. It leaves out what Secrets do not
// assign to the claimant, whether it or a hub says so.
func (r *roster) claimsLocked(peers map[string]*peer, routes map[string]route.Route[*peer]) []allocation.Claim {
	own := allocation.Claim{Cluster: r.identity.ID, ClaimedAt: r.identity.IDClaimedAt, CIDRs: clusterset.SplitList(r.identity.CIDRs)}
	claims, secrets := map[string]allocation.Claim{own.Cluster: own}, map[string][]*peer{}
	for _, p := range peers {
		claim := p.allocationLocked()
		p.unassigned = allocation.Unassigned(claim, p.spec.AllocationCIDRs)
		secrets[p.id] = append(secrets[p.id], p)
		if p.acceptance.Accepted && p.unassigned == "" {
			claims[p.id] = claim
		}
	}
	for id, relayed := range routes {
		if relayed.Entry == nil || len(claims[id].CIDRs) > 0 { // a hub may be used until a member has been read
			continue
		}
		if claim, ok := relayedClaimLocked(relayed, secrets[id]); ok {
			claims[id] = claim
		}
	}
	return slices.SortedFunc(maps.Values(claims), func(a, b allocation.Claim) int { return cmp.Compare(a.Cluster, b.Cluster) })
}

// relayedClaimLocked returns the allocation CIDRs of a cluster that a hub relays. It
// reports false if the hub itself refuses them, or a Secret of the cluster assigns others.
// What a Secret assigns counts as that of a member: not only the hub says so.
func relayedClaimLocked(relayed route.Route[*peer], secrets []*peer) (allocation.Claim, bool) {
	claim := reportedClaimLocked(relayed)
	for _, p := range secrets {
		switch {
		case p.spec.AllocationCIDRs == nil:
		case allocation.Unassigned(claim, p.spec.AllocationCIDRs) != "":
			return allocation.Claim{}, false
		default:
			claim.ClaimedAt, claim.Hub, claim.HubClaimedAt = p.joinedLocked(), "", time.Time{}
		}
	}
	return claim, !response.AllocationRefused(relayed.Entry)
}

// reportedClaimLocked returns what a hub says about a cluster that it relays.
func reportedClaimLocked(relayed route.Route[*peer]) allocation.Claim {
	return allocation.Claim{
		Cluster: relayed.Cluster, ClaimedAt: route.ClaimedAt(relayed.Entry), CIDRs: relayed.Entry.Status.ClusterSetIPCIDRs,
		Hub: relayed.Source.id, HubClaimedAt: relayed.Source.joinedLocked(),
	}
}

// allocateLocked computes the condition ClusterSetIP of a peer, unless nothing changed that
// it depends on.
func (r *roster) allocateLocked(p *peer, reallocated bool) {
	claim := p.allocationLocked()
	input := allocationInput{claim, p.acceptance.Accepted, p.unassigned}
	if !reallocated && input.equal(p.allocationOf) {
		return
	}
	p.allocationOf = input
	if p.unassigned != "" {
		p.allocation = allocation.NotAssigned(p.unassigned)
		return
	}
	conflict := r.conflicts.Of(claim.Cluster)
	if !p.acceptance.Accepted && len(claim.CIDRs) > 0 { // not one of the claims
		conflict = allocation.ConflictOf(claim, r.allocations)
	}
	p.allocation = allocation.Condition(claim, conflict, allocation.Problem(claim, r.config.Ranges))
}

// relayedAllocationLocked returns the condition ClusterSetIP of a cluster that a hub relays.
func (r *roster) relayedAllocationLocked(relayed route.Route[*peer]) *metav1.Condition {
	claim := reportedClaimLocked(relayed)
	if len(claim.CIDRs) > 0 && response.AllocationRefused(relayed.Entry) {
		return allocation.NotAssigned(allocation.RefusedByHub(claim))
	}
	return allocation.Condition(claim, r.conflicts.Of(claim.Cluster), allocation.Problem(claim, r.config.Ranges))
}

// relateLocked computes the condition Mutual, unless nothing changed that it depends on.
func (p *peer) relateLocked(listing *view.Listing) {
	input := mutualInput{listing, p.probes, p.acceptance.Accepted}
	if p.mutualOf != input {
		p.mutual, p.mutualOf = view.Mutual(listing, p.acceptance.Accepted, p.entry, p.relayed), input
	}
}

// newListing returns the clusters that are members here, directly or through a hub.
func newListing(self identity.Cluster, peers map[string]*peer, routes map[string]route.Route[*peer]) *view.Listing {
	listing := &view.Listing{Self: self, IDs: sets.KeySet(routes), UIDs: map[string]types.UID{self.ID: self.UID}}
	for _, p := range peers {
		if p.id != "" && p.id != self.ID {
			listing.IDs.Insert(p.id)
		}
		if p.acceptance.Accepted {
			listing.UIDs[p.id] = p.uid
		}
	}
	listing.Sorted = sets.List(listing.IDs)
	return listing
}

// describeLocked computes all entries, and defers the notification of those
// that changed.
func (r *roster) describeLocked(peers map[string]*peer, routes map[string]route.Route[*peer], now time.Time) {
	entries := map[string]*clusterset.Member{}
	r.named = entryNames(r.identity.ID, peers, routes)
	for name, p := range r.named {
		p.name = name
		entries[name] = r.entryLocked(p, now)
	}
	for cluster, route := range routes {
		if route.Entry != nil {
			entries[cluster] = r.relayedEntryLocked(route, now)
			r.showRelayedLocked(entries[cluster], route, now)
		}
	}
	r.unlisted = r.readers.unlisted(r.identity.ID, r.listing.IDs, now)
	if own := r.ownEntryLocked(now); own != nil {
		entries[own.Name] = own
	}
	old, named, others := r.entries, namedLocked(r.identity.ID, peers), false
	r.entries = entries
	for name := range sets.KeySet(old).Union(sets.KeySet(entries)) {
		if !apiequality.Semantic.DeepEqual(old[name], entries[name]) {
			r.changed = append(r.changed, name)
		}
		if entries[name] == nil || !named.Has(name) {
			propagation.Delete(map[string]string{"cluster": name})
		}
		others = others || entries[name] != nil && !named.Has(name)
	}
	if !others {
		propagation.Delete(map[string]string{"cluster": route.Unnamed})
	}
}

// entryNames returns the name of every peer's entry. The entry that is named after a cluster
// tells whether the cluster is silent, so it is that of the route that is used: of several
// Secrets for one cluster ID the accepted one, or a hub until the cluster itself has been read.
// Entries of other Secrets are named after the Secrets.
func entryNames(self string, peers map[string]*peer, routes map[string]route.Route[*peer]) map[string]*peer {
	named := map[string]*peer{}
	for _, name := range slices.Sorted(maps.Keys(peers)) {
		p := peers[name]
		id := p.spec.EntryName()
		other, taken := named[id]
		switch {
		case id == self, routes[id].Entry != nil:
			named[p.spec.FallbackName()] = p
		case !taken:
			named[id] = p
		case p.acceptance.Accepted:
			named[id], named[other.spec.FallbackName()] = p, other
		default:
			named[p.spec.FallbackName()] = p
		}
	}
	return named
}

func (r *roster) entryLocked(p *peer, now time.Time) *clusterset.Member {
	exported, endpoints := p.exports.Counts(p.id).Total()
	feed := p.feedLocked()
	// Allocation CIDRs are shown together with whether they are refused.
	p.refusals = p.refusalsLocked(feed)
	state, expired, overdue := r.shownLocked(p, now)
	entry := view.Member(view.Peer{
		Name: p.name, SecretUID: p.spec.UID, SecretCreated: p.spec.Created, SecretProblem: p.spec.Problem,
		ClusterID: p.id, ClusterUID: p.uid, ClusterSet: r.identity.ClusterSet, Claims: p.claims, Acceptance: p.acceptance,
		State: state, Expired: expired, Overdue: overdue, Look: r.observed[p.name].at(p.uid, p.lastSeenLocked()), LastSeen: p.lastSeenLocked(), SeenElsewhere: p.seenElsewhereLocked(now), TTL: p.ttlLocked(r.config.TTL), LostPolicy: cmp.Or(p.spec.LostPolicy, r.config.LostPolicy),
		Entry: p.entry, AllocationCIDRs: p.allocationOf.claim.CIDRs, Properties: p.properties, Exports: exported, Endpoints: endpoints, Feed: feed, Outdated: p.outdated,
		Mutual: p.mutual, Allocation: p.allocation, JoinedAt: p.spec.JoinedAt, Backdated: &p.backdated, Previous: p.conditions,
	}, now)
	p.conditions = entry.Status.Conditions
	return entry
}

func (r *roster) relayedEntryLocked(relayed route.Route[*peer], now time.Time) *clusterset.Member {
	hub := relayed.Source
	exported, endpoints := hub.exports.Counts(relayed.Cluster).Total()
	relay := view.Relay{
		ClusterID: relayed.Cluster, Hub: hub.id, Path: relayed.Path, State: relayed.State, Entry: relayed.Entry, LastSeen: lastSeenLocked(relayed),
		TTL: hub.ttlLocked(r.config.TTL), LostPolicy: cmp.Or(hub.spec.LostPolicy, r.config.LostPolicy),
		Exports: exported, Endpoints: endpoints, Complete: hub.feedLocked().Complete(), ReachedElsewhere: relayed.Elsewhere, Allocation: r.relayedAllocationLocked(relayed),
	}
	if before := r.entries[relayed.Cluster]; before != nil && len(before.Status.Path) > 0 {
		relay.Previous = before.Status.Conditions
	}
	return view.Relayed(relay, now)
}

// lastSeenLocked returns when the cluster that a route leads to was last seen.
func lastSeenLocked(to route.Route[*peer]) time.Time {
	if to.Entry == nil {
		return to.Source.lastSeenLocked()
	}
	if seen := to.Source.relayedSeen[to.Cluster].Seen; seen.After(to.Seen) {
		return seen
	}
	return to.Seen
}

func (r *roster) ownEntryLocked(now time.Time) *clusterset.Member {
	exported, endpoints := r.local.Total()
	local := view.Local{
		Identity: r.identity, Version: r.config.Version, KubernetesVersion: r.kubernetesVersion, Properties: r.properties, Exports: exported, Endpoints: endpoints, Peers: r.listing.Sorted, UnlistedReaders: r.unlisted,
		Previous: r.ownConditions,
	}
	claim := allocation.Claim{Cluster: r.identity.ID, CIDRs: clusterset.SplitList(r.identity.CIDRs)}
	if len(claim.CIDRs) > 0 {
		local.AllocationCIDRs = claim.CIDRs
	}
	for _, prefix := range r.config.Ranges {
		local.Ranges = append(local.Ranges, prefix.String())
	}
	local.Allocation = allocation.Condition(claim, r.conflicts.Of(claim.Cluster), r.identity.CIDRProblem)
	own := view.Own(local, now)
	if own != nil {
		r.ownConditions = own.Status.Conditions
	}
	return own
}

func (r *roster) refreshOwnLocked(now time.Time) {
	if own := r.ownEntryLocked(now); own != nil {
		r.replaceLocked(own.Name, own)
	}
}

func (r *roster) replaceLocked(name string, entry *clusterset.Member) {
	r.entries[name] = entry
	r.changed = append(r.changed, name)
}

// observeReadersLocked updates the own entry if other clusters read from this
// one than before.
func (r *roster) observeReadersLocked(now time.Time) {
	if unlisted := r.readers.unlisted(r.identity.ID, r.listing.IDs, now); !slices.Equal(unlisted, r.unlisted) {
		r.unlisted = unlisted
		r.refreshOwnLocked(now)
	}
}
