// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/validation"
)

const (
	// readerWindow is how long a cluster that was seen reading counts as one
	// that reads. It is a few probes.
	readerWindow = time.Minute
	maxReaders   = 1000
)

// What feeds say. A feed that is not the peer's present one is not listened to.

// hear runs what a feed has to say with the lock held.
func (r *Registry) hear(f *feed, say func(*peer)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.peer.feed == f {
		say(f.peer)
	}
}

// told takes a new or changed object.
func (r *Registry) told(f *feed, object any) error {
	fact, err := read(object)
	if err != nil {
		return err
	}
	r.hear(f, func(peer *peer) {
		touched := touched{}
		r.take(peer, fact, touched)
		r.changed(peer, touched)
		r.refresh(peer)
	})
	return nil
}

// untold takes the deletion of an object.
func (r *Registry) untold(f *feed, object any) error {
	fact, err := read(object)
	if err != nil {
		return err
	}
	r.hear(f, func(peer *peer) {
		touched := touched{}
		r.lose(peer, fact, touched)
		r.changed(peer, touched)
		r.refresh(peer)
	})
	return nil
}

// replaced takes everything of one kind at once.
func (r *Registry) replaced(f *feed, kind kind, objects []any) error {
	facts := make([]fact, 0, len(objects))
	for _, object := range objects {
		fact, err := read(object)
		if err != nil {
			return err
		}
		facts = append(facts, fact)
	}
	r.hear(f, func(peer *peer) {
		peer.rejected[kind], peer.feedErrors[kind] = nil, nil
		touched := touched{}
		current := map[string]sets.Set[location]{}
		for _, fact := range facts {
			if r.take(peer, fact, touched) {
				if current[fact.cluster] == nil {
					current[fact.cluster] = sets.New[location]()
				}
				current[fact.cluster].Insert(fact.location())
			}
		}
		peer.doubtful[kind] = sets.New[string]()
		for _, cluster := range peer.holdings.clusters() {
			held := peer.holdings.of(cluster, kind)
			if len(held) > 0 && len(current[cluster]) == 0 {
				peer.doubtful[kind].Insert(cluster) // unknown is not empty
				continue
			}
			for _, fact := range held {
				if !current[cluster].Has(fact.location()) {
					r.lose(peer, fact, touched)
				}
			}
		}
		r.changed(peer, touched)
		if len(peer.doubtful[kind]) > 0 {
			f.probeNow()
		}
		peer.synced[kind] = true
		peer.heard = peer.heard || peer.synced == [kinds]bool{true, true}
		r.evaluate()
	})
	return nil
}

// serviceOf is a service of one cluster.
type serviceOf struct {
	cluster string
	service types.NamespacedName
}

// touched are the services of which something has changed.
type touched map[serviceOf]struct{}

func (t touched) add(f fact) { t[serviceOf{f.cluster, f.service}] = struct{}{} }

// take holds a fact if it may be taken.
func (r *Registry) take(peer *peer, f fact, touched touched) bool {
	id := types.NamespacedName{Namespace: f.service.Namespace, Name: f.name}
	arrived, taken, err := arrive(r.identity.ID, peer.spec, r.config.Ranges, f)
	if err != nil && !taken {
		r.lose(peer, f, touched) // what it was before is not what it is now
	}
	delete(peer.rejected[f.kind], id)
	if err != nil {
		if peer.rejected[f.kind] == nil {
			peer.rejected[f.kind] = map[types.NamespacedName]error{}
		}
		peer.rejected[f.kind][id] = err
	}
	if !taken {
		return false
	}
	peer.doubtful[f.kind].Delete(f.cluster)
	if held, ok := peer.holdings.find(f); ok && held.service != f.service {
		r.lose(peer, held, touched)
	}
	if peer.holdings.set(arrived) {
		touched.add(arrived)
	}
	return true
}

// lose forgets a fact.
func (r *Registry) lose(peer *peer, f fact, touched touched) {
	delete(peer.rejected[f.kind], types.NamespacedName{Namespace: f.service.Namespace, Name: f.name})
	if held, ok := peer.holdings.find(f); ok {
		peer.holdings.remove(held)
		touched.add(held)
	}
}

// changed passes on that services have changed, if this peer is believed about
// them, and remembers it for the next start.
func (r *Registry) changed(peer *peer, touched touched) {
	for of := range touched {
		r.remember(peer, of.cluster, of.service)
		if r.routes[of.cluster].peer == peer {
			r.config.ServiceChanged(of.service)
		}
	}
}

// remember writes down what is known of a service, once it is known whose it
// is. That nothing is left of it is always written down.
func (r *Registry) remember(peer *peer, cluster string, service types.NamespacedName) {
	facts := peer.holdings.about(cluster, service)
	if peer.uid == "" || !peer.verdict.accepted && len(facts) > 0 {
		return
	}
	r.memory.record(peer.spec.id, peer.uid, cluster, service, facts)
}

// held is how many objects of a kind a feed has brought.
func (r *Registry) held(f *feed, kind kind) int {
	n := 0
	r.hear(f, func(peer *peer) {
		for cluster := range peer.holdings {
			n += len(peer.holdings.of(cluster, kind))
		}
	})
	return n
}

// feedFailed takes the outcome of an attempt to read.
func (r *Registry) feedFailed(f *feed, kind kind, err error) {
	r.hear(f, func(peer *peer) {
		peer.feedErrors[kind] = err
		r.refresh(peer)
	})
}

// claimed takes what a member says of itself. A cluster cannot lose its id:
// an answer without one says nothing of a member that has had one.
func (r *Registry) claimed(f *feed, told *claims) {
	r.hear(f, func(peer *peer) {
		if told.id == "" && peer.verdict.accepted {
			return
		}
		peer.claims, peer.claimedAt = told, told.idClaimedAt
		r.evaluate()
	})
}

// claimsFailed takes the outcome of an attempt to read a member's claims.
func (r *Registry) claimsFailed(f *feed, err error) {
	r.hear(f, func(peer *peer) {
		peer.claimsError = err
		r.refresh(peer)
	})
}

// Heard notes that another cluster reads from this one, by the user agent of
// its request.
func (r *Registry) Heard(userAgent string) {
	id, ok := readerID(userAgent)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, known := r.readers[id]
	known = known && r.config.Clock.Since(seen) < readerWindow
	r.readers[id] = r.config.Clock.Now()
	if !known && len(r.readers) > maxReaders {
		delete(r.readers, slices.MinFunc(sets.List(sets.KeySet(r.readers)), func(a, b string) int { return r.readers[a].Compare(r.readers[b]) }))
	}
	if !known {
		r.refreshOwn()
	}
}

// readerID is the id of a cluster that introduces itself.
func readerID(userAgent string) (string, bool) {
	id, ok := strings.CutPrefix(userAgent, reader)
	return id, ok && len(validation.ValidateClusterID(id, nil)) == 0
}
