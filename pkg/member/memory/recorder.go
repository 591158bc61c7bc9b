// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory keeps what every member last exported across restarts of this
// server: its ExportedServices, and what else is needed to know the member before
// it responds. Endpoints are not kept here; they are restored from imported
// EndpointSlices. All replicas read the documents, and one of them writes.
package memory

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/pace"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record"
)

// Recorder records what members export. Callers never wait for the storage.
//
// Every replica knows what is to be remembered, and the one that is elected writes
// it. When it is elected, it compares what it knows with what is stored, and writes
// only the differences.
type Recorder struct {
	store record.Store
	elect Election
	clock clock.WithTicker

	mu sync.Mutex
	// epochs count how often a member was forgotten, by ID.
	epochs map[string]int
	// members are what is to be remembered, by ID, and forgotten the members whose
	// documents are to be deleted. The documents of others are left alone: this
	// replica may not have reached a member that another one has.
	members   map[string]*remembered
	forgotten sets.Set[string]
	// written limits the bytes that are written of a member, and rests are until when nothing is
	// written of those that had too many.
	written *pace.Limiter[string]
	rests   map[string]time.Time
	// writing is nil unless this replica is elected.
	writing *writing
	wake    chan struct{}
}

// remembered is what is to be remembered of a member.
type remembered struct {
	uid      types.UID
	contact  Contact
	services *tree
	// tooLarge are the prefixes of chunks that are too large to be stored.
	tooLarge sets.Set[string]
	// heard is set while all that the member exports is known as of now. Otherwise the
	// stored documents may be newer: another replica may hear from the member.
	heard bool
}

// NewRecorder returns a Recorder. Nothing runs yet.
func NewRecorder(store record.Store, elect Election, clock clock.WithTicker) *Recorder {
	registerMetrics()
	return &Recorder{
		store: store, elect: elect, clock: clock,
		epochs: map[string]int{}, members: map[string]*remembered{}, forgotten: sets.New[string](), wake: make(chan struct{}, 1),
		written: pace.New[string](clock, time.Second/bytesPerSecond, bytesAtOnce), rests: map[string]time.Time{},
	}
}

// Epoch returns the current epoch of a member's records. Forget begins a new one.
func (r *Recorder) Epoch(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.epochs[id]
}

// Record records a Service, nil if it is no longer exported. It does nothing if the
// member was forgotten since the epoch: callers that do not hold a lock cannot bring
// back what was removed.
func (r *Recorder) Record(epoch int, id string, uid types.UID, ref exports.Ref, service *clusterset.ExportedService) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epochs[id] != epoch {
		return
	}
	if known := r.members[id]; service == nil && (known == nil || known.uid != uid) {
		return // the Service of another cluster
	}
	r.setLocked(id, r.memberLocked(id, uid), ref, service)
}

// RecordAll records all Services of a member, and forgets others that it had.
func (r *Recorder) RecordAll(epoch int, id string, uid types.UID, services map[exports.Ref]*clusterset.ExportedService) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epochs[id] != epoch {
		return
	}
	member := r.memberLocked(id, uid)
	for _, content := range member.services.chunks {
		for ref := range content {
			if services[ref] == nil {
				r.setLocked(id, member, ref, nil)
			}
		}
	}
	for ref, service := range services {
		r.setLocked(id, member, ref, service)
	}
}

func (r *Recorder) setLocked(id string, member *remembered, ref exports.Ref, service *clusterset.ExportedService) {
	r.chunksChangedLocked(id, member, member.services.set(ref, service))
}

// RecordContact records that a member was heard from, and that all Services that it
// exports now were recorded. Only what changed is written.
func (r *Recorder) RecordContact(id string, uid types.UID, contact Contact) {
	contact = contact.lasting()
	r.mu.Lock()
	defer r.mu.Unlock()
	member := r.memberLocked(id, uid)
	if !member.contact.equal(contact) {
		member.contact = contact
		r.changedLocked(member, document{member: id, contact: true})
	}
	if !member.heard {
		member.heard = true
		r.compareLocked(id)
	}
}

// memberLocked returns what is to be remembered of a member. Nothing is inherited
// from another cluster with the same ID.
func (r *Recorder) memberLocked(id string, uid types.UID) *remembered {
	member := r.members[id]
	if member == nil || member.uid != uid {
		member = &remembered{uid: uid, services: newTree(), tooLarge: sets.New[string]()}
		r.members[id] = member
		r.forgotten.Delete(id)
	}
	return member
}

// Forget removes a member.
func (r *Recorder) Forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epochs[id]++
	delete(r.members, id)
	delete(r.rests, id)
	r.forgotten.Insert(id)
	r.compareLocked(id)
}

// Doubt leaves the documents of a member as they are until it is heard from again:
// another replica may know it better. Its Secret exists, so they are not deleted either.
func (r *Recorder) Doubt(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgotten.Delete(id)
	if member := r.members[id]; member != nil {
		member.heard = false
	}
}

// HandOver lets another replica write that hears from more members, unless this one just
// began: replicas that each miss another member write in turns.
func (r *Recorder) HandOver() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writing != nil && r.writing.end != nil && r.clock.Since(r.writing.since) >= minTerm {
		r.writing.end()
	}
}

// Run writes while this replica is elected, until the context ends.
func (r *Recorder) Run(ctx context.Context) {
	r.elect(ctx, func(elected context.Context) {
		term, end := context.WithCancel(elected)
		defer end()
		if !r.takeOver(term) {
			return
		}
		r.mu.Lock()
		r.writing.end = end
		r.mu.Unlock()
		r.writeUntilDone(term)
		if ctx.Err() != nil || elected.Err() == nil { // the election still holds
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrites)
			r.Flush(last)
			cancel()
		}
		r.resign()
	})
}

// retry calls a function until it succeeds or the context ends, and reports which.
func (r *Recorder) retry(ctx context.Context, what string, call func() error) bool {
	for attempt := 0; ; attempt++ {
		err := call()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		klog.FromContext(ctx).Error(err, what)
		select {
		case <-ctx.Done():
			return false
		case <-r.clock.After(delayAfter(attempt)):
		}
	}
}

// delayAfter is how long to wait after a number of failures before the next attempt.
func delayAfter(failures int) time.Duration {
	return min(writeDelay<<min(failures, 10), maxRetryDelay)
}
