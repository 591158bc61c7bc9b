// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/memory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/route"
)

// maxInPlace is how many changes are applied with the lock held. For more, the
// exports are copied and changed without the lock, and then replaced.
const maxInPlace = 100

// routed returns the Services of clusters to which the peer is the route.
func routed(routes map[string]route.Route[*peer], p *peer, refs []exports.Ref) []exports.Ref {
	var services []exports.Ref
	for _, ref := range refs {
		if routes[ref.Cluster].Source == p {
			services = append(services, ref)
		}
	}
	return services
}

// notifyLocked defers the notification that Services changed.
func (s *Set) notifyLocked(services []exports.Ref) {
	if len(services) > 0 {
		s.deferred = append(s.deferred, func() {
			for _, service := range services {
				s.config.ServiceChanged(service)
			}
		})
	}
}

// commit applies an update to the exports of a peer, and records them. The
// caller holds p.updates and computed the update from store. change runs with
// the lock held after the exports changed; nothing happens if they were replaced
// since, or validLocked reports false.
func (s *Set) commit(p *peer, store *exports.Store, update exports.Update, validLocked func() bool, change func()) (after func()) {
	next, refs := store, slices.Collect(maps.Keys(update.Services()))
	if update.Len() > maxInPlace {
		next = store.Clone()
		next.Apply(update)
	}
	var recording recording
	after = s.locked(func() {
		if p.exports != store || !validLocked() {
			return
		}
		if next == store {
			store.Apply(update)
		}
		p.exports = next
		p.backdated.Withdraw(next, update)
		recording = p.recordingLocked(s.recorder)
		s.notifyLocked(routed(s.routes, p, refs))
		change()
	})
	recording.record(next, refs)
	return after
}

// recording records the exports of a peer without the lock that its fields were
// read with. The zero value records nothing.
type recording struct {
	recorder *memory.Recorder
	epoch    int
	id       string
	uid      types.UID
	accepted bool
}

func (p *peer) recordingLocked(recorder *memory.Recorder) recording {
	return recording{recorder, recorder.Epoch(p.id), p.id, p.uid, p.acceptance.Accepted}
}

// record records Services of an accepted member, as soon as its UID is known. The caller
// holds the peer's updates.
func (r recording) record(store *exports.Store, refs []exports.Ref) {
	if r.uid == "" || !r.accepted { // all of them are recorded when it is accepted
		return
	}
	for _, ref := range refs {
		r.recorder.Record(r.epoch, r.id, r.uid, ref, store.Service(ref))
	}
}

// recordAll records all Services that a peer exports.
func (s *Set) recordAll(p *peer) {
	p.updates.Lock()
	defer p.updates.Unlock()
	s.mu.RLock()
	store, recording := p.exports, p.recordingLocked(s.recorder)
	present := s.peers[p.spec.Name] == p
	s.mu.RUnlock()
	if !present || !recording.accepted || recording.uid == "" {
		return
	}
	services := map[exports.Ref]*clusterset.ExportedService{}
	for _, ref := range store.Refs() {
		if service := store.Service(ref); service != nil {
			services[ref] = service
		}
	}
	recording.recorder.RecordAll(recording.epoch, recording.id, recording.uid, services)
	s.mu.Lock()
	defer s.mu.Unlock()
	p.recorded = p.recordingLocked(s.recorder) == recording // not forgotten meanwhile
}

// enforcePolicy removes what the exports of a peer contain but its Secret, or
// the identity or networks of this cluster, no longer allow. What is newly allowed
// is read by the feed that starts at the same time, or reads everything again.
// Nothing is removed while the Secret is invalid: its policy may be incomplete, and
// the member is refused anyway. It reports whether anything was removed.
func (s *Set) enforcePolicy(p *peer) (removed bool) {
	p.updates.Lock()
	s.mu.RLock()
	store, policy, invalid := p.exports, s.policyLocked(p.spec), p.spec.Problem != nil
	s.mu.RUnlock()
	if invalid {
		p.updates.Unlock()
		return false
	}
	presentLocked := func() bool { return s.peers[p.spec.Name] == p }
	update := store.Fit(store.Retain(policy), policy.Limits)
	after := s.commit(p, store, update, presentLocked, func() { s.refreshLocked(p) })
	p.updates.Unlock()
	after()
	return update.Len() > 0
}
