// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// probed takes the answer to a probe.
func (r *Registry) probed(f *feed, answer *clustersetv1alpha1.MemberList, err error) {
	var entries map[string]*clusterset.Member
	if err == nil {
		entries, err = readEntries(answer)
	}
	r.hear(f, func(peer *peer) {
		before := r.sketch(peer)
		peer.probeError = err
		if err == nil {
			peer.lastSeen = r.config.Clock.Now()
			r.meet(f, entries)
			if peer.verdict.accepted {
				r.memory.seen(peer.spec.id, peer.uid, peer.sight())
			}
		}
		if peer.spec.relay.any() || before != r.sketch(peer) || peer.state != r.stateOf(peer) {
			r.evaluate()
		} else {
			r.refresh(peer)
		}
	})
}

// sketch is what about a peer others depend on, as far as probes change it.
type sketch struct {
	state clusterset.MemberState
	uid   types.UID
	fails bool
	peers string
	cidrs string
}

func (r *Registry) sketch(peer *peer) sketch {
	s := sketch{state: peer.state, uid: peer.uid, fails: peer.probeError != nil}
	if peer.entry != nil {
		s.peers = strings.Join(peer.entry.Status.Peers, ",")
		s.cidrs = strings.Join(peer.entry.Status.ClusterSetIPCIDRs, ",")
	}
	return s
}

// errNotUnderstood is for answers that make no sense.
var errNotUnderstood = errors.New("its answer is not understood")

func readEntries(answer *clustersetv1alpha1.MemberList) (map[string]*clusterset.Member, error) {
	entries := map[string]*clusterset.Member{}
	for i := range answer.Items {
		entry := &clusterset.Member{}
		if err := clustersetv1alpha1.Convert_v1alpha1_Member_To_clusterset_Member(&answer.Items[i], entry, nil); err != nil {
			return nil, fmt.Errorf("%w: %w", errNotUnderstood, err)
		}
		// It becomes part of a key of the memory.
		if uid := string(entry.Status.ClusterUID); uid != "" && len(validation.IsDNS1123Label(uid)) > 0 {
			return nil, fmt.Errorf("%w: clusterUID %.100q of %.100q is no UID", errNotUnderstood, uid, entry.Name)
		}
		entries[entry.Name] = entry
	}
	return entries, nil
}

// meet takes the entries that a member answered with: its own, and if it is a
// hub those of the clusters that it speaks for.
func (r *Registry) meet(f *feed, entries map[string]*clusterset.Member) {
	peer := f.peer
	own := entries[peer.spec.id]
	if own != nil && (own.Status.State != clusterset.MemberLocal || own.Status.ClusterUID == "") {
		own = nil // it is somebody else's, or does not say whose
	}
	if own != nil {
		if peer.uid != "" && peer.uid != own.Status.ClusterUID {
			r.succeed(peer)
		}
		peer.entry, peer.uid, peer.cidrs = own, own.Status.ClusterUID, own.Status.ClusterSetIPCIDRs
	}
	if peer.spec.relay.any() {
		relayed := maps.Clone(entries)
		delete(relayed, peer.spec.id)
		peer.relayed = relayed
	}
	if len(f.hurry) > 0 {
		return // doubts came up while the answer was on its way
	}
	touched := touched{}
	for kind := range kinds {
		for _, cluster := range sets.List(peer.doubtful[kind]) {
			if confirmed(peer, entries, cluster, kind) {
				peer.doubtful[kind].Delete(cluster)
				for _, fact := range peer.holdings.of(cluster, kind) {
					r.lose(peer, fact, touched)
				}
			}
		}
	}
	r.changed(peer, touched)
}

// confirmed says whether nothing is left of a cluster's exports: its entry
// says so, or the hub has no entry for it any more.
func confirmed(peer *peer, entries map[string]*clusterset.Member, cluster string, kind kind) bool {
	entry := entries[cluster]
	switch {
	case entry == nil:
		return cluster != peer.spec.id
	case cluster == peer.spec.id && entry.Status.State != clusterset.MemberLocal, !entry.Status.Synced:
		return false
	case kind == services:
		return entry.Status.Exports == 0
	}
	return entry.Status.Endpoints == 0
}

// succeed is for a peer whose id now belongs to another cluster, which
// inherits nothing.
func (r *Registry) succeed(peer *peer) {
	r.loseAll(peer, func(string) bool { return true })
	r.memory.forget(peer.spec.id)
	peer.remembered, peer.heard, peer.verdict = false, false, verdict{reason: reasonUnknown}
	peer.claims, peer.claimedAt, peer.cidrs = nil, time.Time{}, nil
	peer.doubtful = [kinds]sets.Set[string]{}
	// What its feed has brought meanwhile may be either's.
	r.startFeed(peer)
}

// loseAll forgets what a peer told of some clusters.
func (r *Registry) loseAll(peer *peer, of func(cluster string) bool) {
	touched := touched{}
	for _, cluster := range peer.holdings.clusters() {
		for kind := range kinds {
			if !of(cluster) {
				continue
			}
			peer.doubtful[kind].Delete(cluster)
			for _, fact := range peer.holdings.of(cluster, kind) {
				r.lose(peer, fact, touched)
			}
		}
	}
	r.changed(peer, touched)
}

// loseUnwanted forgets what a peer was once allowed to tell and is no more.
func (r *Registry) loseUnwanted(peer *peer) {
	r.loseAll(peer, func(cluster string) bool {
		return cluster == r.identity.ID || cluster != peer.spec.id && !peer.spec.relay.allows(cluster)
	})
}
