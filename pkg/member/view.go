// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// Export is a Service as one cluster exports it, together with the state of that cluster.
type Export struct {
	clusterset.Export
	State    clusterset.MemberState
	LastSeen time.Time
}

// Exports are a service as the members export it, one per cluster.
func (r *Registry) Exports(service types.NamespacedName) []Export {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var exports []Export
	for cluster, route := range r.routes {
		if exported := route.peer.holdings[cluster].exported(service); exported != nil {
			exports = append(exports, Export{*exported, route.state, route.lastSeen})
		}
	}
	return exports
}

// Services are all that any member exports.
func (r *Registry) Services() []types.NamespacedName {
	r.mu.RLock()
	defer r.mu.RUnlock()
	keys := sets.New[types.NamespacedName]()
	for _, route := range r.routes {
		keys.Insert(route.keys()...)
	}
	return keys.UnsortedList()
}

// Entry is a member as this cluster sees it, nil if there is none of the name.
// It must not be modified.
func (r *Registry) Entry(name string) *clusterset.Member {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.entries[name]
}

// Names are those of all entries.
func (r *Registry) Names() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.entries))
}

// Settled is true when every member has been heard: nothing that is known is
// from memory alone.
func (r *Registry) Settled() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, peer := range r.peers {
		if !peer.verdict.refused() && (!peer.verdict.accepted || peer.entry == nil || !peer.isSynced()) {
			return false
		}
	}
	return true
}

func (p *peer) isSynced() bool {
	for kind := range kinds {
		if !p.synced[kind] || len(p.doubtful[kind]) > 0 {
			return false
		}
	}
	return true
}

// describeAll makes all entries anew.
func (r *Registry) describeAll() {
	entries := map[string]*clusterset.Member{}
	for name, peer := range r.named() {
		peer.name = name
		entries[name] = r.describe(peer)
	}
	for cluster, route := range r.routes {
		if route.entry != nil && entries[cluster] == nil {
			entries[cluster] = describeRelayed(route)
		}
	}
	if own := r.describeOwn(); own != nil {
		entries[own.Name] = own
	}
	old := r.entries
	r.entries = entries
	for name := range sets.KeySet(old).Union(sets.KeySet(entries)) {
		if !apiequality.Semantic.DeepEqual(old[name], entries[name]) {
			r.config.MemberChanged(name)
		}
	}
}

// refresh makes the entry of one peer anew, when nothing has changed that
// others depend on.
func (r *Registry) refresh(peer *peer) {
	r.replaceEntry(peer.name, r.describe(peer))
}

func (r *Registry) refreshOwn() {
	if own := r.describeOwn(); own != nil {
		r.replaceEntry(own.Name, own)
	}
}

func (r *Registry) replaceEntry(name string, entry *clusterset.Member) {
	r.entries[name] = entry
	r.config.MemberChanged(name)
}

// named gives every peer a name. Where several claim an id, the accepted one
// has it, and the others go by their Secrets' names.
func (r *Registry) named() map[string]*peer {
	named := map[string]*peer{}
	for _, peer := range r.peers {
		name := peer.spec.entryName()
		if name == r.identity.ID {
			named["secret."+peer.spec.secret] = peer
			continue
		}
		if other, taken := named[name]; taken {
			loser := peer
			if peer.verdict.accepted || !other.verdict.accepted && peer.spec.secret < other.spec.secret {
				loser = other
				named[name] = peer
			}
			named["secret."+loser.spec.secret] = loser
			continue
		}
		named[name] = peer
	}
	return named
}

// describe makes the entry of a peer.
func (r *Registry) describe(peer *peer) *clusterset.Member {
	entry := &clusterset.Member{ObjectMeta: metav1.ObjectMeta{Name: peer.name, UID: peer.spec.uid, CreationTimestamp: peer.spec.created}}
	entry.Labels = map[string]string{"app.kubernetes.io/managed-by": "mcs-apiserver"}
	status := &entry.Status
	status.ClusterID, status.ClusterUID, status.State = peer.spec.id, peer.uid, r.stateOf(peer)
	if peer.claims != nil {
		status.ClusterSet = peer.claims.clusterSet
		status.IDClaimedAt = timePointer(peer.claims.idClaimedAt)
	} else if peer.verdict.accepted {
		status.ClusterSet = r.identity.ClusterSet
	}
	status.LastSeen = timePointer(peer.lastSeen)
	status.TTLSeconds, status.LostPolicy = int32(r.ttl(peer)/time.Second), cmp.Or(peer.spec.lostPolicy, r.config.LostPolicy)
	if held := peer.holdings[peer.spec.id]; held != nil {
		status.Exports, status.Endpoints = held.exports, held.endpoints
	}
	status.Synced = peer.isSynced()
	status.ClusterSetIPCIDRs = peer.cidrs
	if peer.entry != nil {
		status.ClusterSetIPRanges = peer.entry.Status.ClusterSetIPRanges
	}
	r.conditions(peer)
	status.Conditions = slices.Clone(peer.conditions)
	return entry
}

func timePointer(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	// As it is written, so that what is compared is what is shown.
	seconds := metav1.NewTime(at).Rfc3339Copy()
	return &seconds
}

// describeRelayed makes the entry of a cluster that a hub speaks for.
func describeRelayed(route route) *clusterset.Member {
	entry := route.entry.DeepCopy()
	entry.ObjectMeta = essential(entry.ObjectMeta)
	entry.Namespace = ""
	entry.Status.Path, entry.Status.State = route.path, route.state
	entry.Status.Exports, entry.Status.Endpoints, entry.Status.Peers = 0, 0, nil
	if held := route.peer.holdings[route.cluster]; held != nil {
		entry.Status.Exports, entry.Status.Endpoints = held.exports, held.endpoints
	}
	entry.Status.Synced = entry.Status.Synced && route.peer.isSynced()
	return entry
}

// describeOwn makes this cluster's own entry, which the others read.
func (r *Registry) describeOwn() *clusterset.Member {
	if r.identity.ID == "" {
		return nil
	}
	own := &clusterset.Member{ObjectMeta: metav1.ObjectMeta{
		Name: r.identity.ID, UID: r.identity.UID, CreationTimestamp: metav1.NewTime(r.identity.Since).Rfc3339Copy(),
		Labels: map[string]string{"app.kubernetes.io/managed-by": "mcs-apiserver"},
	}}
	listed := r.listed()
	own.Status = clusterset.MemberStatus{
		ClusterID: r.identity.ID, ClusterUID: r.identity.UID, ClusterSet: r.identity.ClusterSet, IDClaimedAt: timePointer(r.identity.IDClaimedAt),
		State: clusterset.MemberLocal, Exports: r.local.exports, Endpoints: r.local.endpoints, Synced: true,
		Peers: sets.List(listed),
	}
	var strangers []string
	for id, seen := range r.readers {
		if !listed.Has(id) && id != r.identity.ID && r.config.Clock.Since(seen) < readerWindow {
			strangers = append(strangers, id)
		}
	}
	slices.Sort(strangers)
	mutual := metav1.Condition{Type: clusterset.MemberMutual, Status: metav1.ConditionTrue, Reason: "Mutual", Message: "nobody reads from this cluster who is no member here"}
	if len(strangers) > 0 {
		mutual.Status, mutual.Reason = metav1.ConditionFalse, "UnlistedReader"
		mutual.Message = fmt.Sprintf("what this cluster exports is read by %s, no member here: create a Secret for it, or take its credential away", strings.Join(strangers, ", "))
	}
	r.setCondition(&r.ownConditions, mutual)
	part := r.ownPart()
	if len(part.cidrs) > 0 {
		own.Status.ClusterSetIPCIDRs = part.cidrs
	}
	for _, prefix := range r.config.Ranges {
		own.Status.ClusterSetIPRanges = append(own.Status.ClusterSetIPRanges, prefix.String())
	}
	r.setOrRemove(&r.ownConditions, clusterset.MemberClusterSetIP, part.condition(r.parts, r.identity.CIDRProblem))
	own.Status.Conditions = slices.Clone(r.ownConditions)
	return own
}

// listed are the ids of all clusters that are members here, directly or by a hub.
func (r *Registry) listed() sets.Set[string] {
	listed := sets.KeySet(r.routes)
	for _, peer := range r.peers {
		if peer.spec.id != "" && peer.spec.id != r.identity.ID {
			listed.Insert(peer.spec.id)
		}
	}
	return listed
}
