// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
)

const (
	// writeDelay collects changes before they are written.
	writeDelay = time.Second
	// ContactInterval is how far the recorded time of the last contact may lag.
	ContactInterval = 30 * time.Second
	writeTimeout    = 10 * time.Second
)

// Recorder writes to a Memory in batches and in the background: callers never
// wait for etcd.
type Recorder struct {
	memory *Memory
	clock  clock.WithTicker

	mu sync.Mutex
	// epochs count how often a member was forgotten, by ID.
	epochs map[string]int
	// forgotten are members to be removed before anything is written.
	forgotten []string
	// pending are the objects to be written, by key.
	pending map[string][]exports.Object
	// contacts are those that have not been written, by key.
	contacts map[string]Contact
	// written are the times of the contacts that were written last, by key.
	written map[string]time.Time
	wake    chan struct{}
}

// Contact is what is recorded of a member besides its exports.
type Contact struct {
	// At is when the member was last seen.
	At time.Time
	// ClaimedAt is when it claimed its ID, and Secret the name of its Secret.
	ClaimedAt time.Time
	Secret    string
	// CIDRs are its allocation CIDRs.
	CIDRs []string
	// Relayed are the entries of a hub.
	Relayed map[string]*clusterset.Member
	// Lost is set if the member has been silent for longer than its TTL since.
	Lost bool
}

// NewRecorder returns a Recorder. Nothing runs yet.
func NewRecorder(memory *Memory, clock clock.WithTicker) *Recorder {
	return &Recorder{
		memory: memory, clock: clock, epochs: map[string]int{}, pending: map[string][]exports.Object{}, contacts: map[string]Contact{},
		written: map[string]time.Time{}, wake: make(chan struct{}, 1),
	}
}

// Load reads the memory. It retries until it succeeds or the context ends:
// without the memory, it would look as if members had exported nothing.
func (r *Recorder) Load(ctx context.Context) (map[string]Member, error) {
	logger := klog.FromContext(ctx)
	for {
		remembered, err := r.memory.load(ctx, func(key string, err error) {
			logger.Error(err, "Failed to decode a record of a member's exports, skipping it", "key", key)
		})
		if err == nil || ctx.Err() != nil {
			return remembered, err
		}
		logger.Error(err, "Failed to read the recorded exports of members from etcd, retrying")
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-r.clock.After(writeDelay):
		}
	}
}

// Epoch returns the current epoch of a member's records. Forget begins a new one.
func (r *Recorder) Epoch(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.epochs[id]
}

// Record records the objects of a Service, none if it is no longer exported. It
// does nothing if the member was forgotten since the epoch: callers that do not
// hold a lock cannot bring back what was removed.
func (r *Recorder) Record(epoch int, id string, uid types.UID, ref exports.Ref, objects []exports.Object) {
	slices.SortFunc(objects, func(a, b exports.Object) int { return strings.Compare(a.Name, b.Name) }) // the same in every replica
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epochs[id] != epoch {
		return
	}
	r.pending[recordKey{id, uid, ref.Cluster, ref.Service}.String()] = objects
	r.wakeUp()
}

// RecordContact records when a member was seen. It writes only every
// ContactInterval.
func (r *Recorder) RecordContact(id string, uid types.UID, contact Contact) {
	if uid == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := seenKey(id, uid)
	if contact.At.Sub(r.written[key]) < ContactInterval {
		return
	}
	r.written[key] = contact.At
	r.contacts[key] = contact
	r.wakeUp()
}

// RecordLost records that a member is lost.
func (r *Recorder) RecordLost(id string, uid types.UID, contact Contact) {
	if uid == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := seenKey(id, uid)
	delete(r.written, key) // the next contact is written at once
	contact.Lost = true
	r.contacts[key] = contact
	r.wakeUp()
}

// Forget removes a member, and what was to be written of it.
func (r *Recorder) Forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epochs[id]++
	r.forgotten = append(r.forgotten, id)
	for _, key := range keysBelow(r.pending, id) {
		delete(r.pending, key)
	}
	for _, key := range keysBelow(r.contacts, id) {
		delete(r.contacts, key)
	}
	for _, key := range keysBelow(r.written, id) {
		delete(r.written, key)
	}
	r.wakeUp()
}

// ReleaseOrphans clears the Secret of members whose Secret no longer exists or is
// for another cluster, so that any Secret for their ID can recall them. ids are
// the cluster IDs by the names of the existing Secrets.
func ReleaseOrphans(members map[string]Member, ids map[string]string) {
	for id, member := range members {
		if ids[member.Secret] != id {
			member.Secret = ""
			members[id] = member
		}
	}
}

func keysBelow[T any](values map[string]T, id string) []string {
	var keys []string
	for key := range values {
		if strings.HasPrefix(key, id+"/") {
			keys = append(keys, key)
		}
	}
	return keys
}

func (r *Recorder) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run writes until the context ends, and then once more what is left.
func (r *Recorder) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
			r.Flush(last)
			cancel()
			return
		case <-r.wake:
		}
		_ = wait.PollUntilContextCancel(ctx, writeDelay, false, func(ctx context.Context) (bool, error) {
			return r.Flush(ctx), nil
		})
	}
}

// Flush writes everything that is pending and reports whether that succeeded.
// What could not be written stays pending, unless it was superseded.
func (r *Recorder) Flush(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	logger := klog.FromContext(ctx)
	r.mu.Lock()
	forgotten, pending, contacts := r.forgotten, r.pending, r.contacts
	r.forgotten, r.pending, r.contacts = nil, map[string][]exports.Object{}, map[string]Contact{}
	r.mu.Unlock()

	err := r.write(ctx, forgotten, pending, contacts)
	if err == nil {
		return true
	}
	logger.Error(err, "Failed to write the exports of members to etcd, retrying")
	r.mu.Lock()
	defer r.mu.Unlock()
	restore(r.pending, pending, r.forgotten)
	restore(r.contacts, contacts, r.forgotten)
	r.forgotten = append(forgotten, r.forgotten...)
	return false
}

// restore puts earlier values back, except for those that were superseded or
// forgotten in the meantime.
func restore[T any](current, earlier map[string]T, forgotten []string) {
	for _, id := range forgotten {
		for _, key := range keysBelow(earlier, id) {
			delete(earlier, key)
		}
	}
	for key, value := range earlier {
		if _, newer := current[key]; !newer {
			current[key] = value
		}
	}
}

func (r *Recorder) write(ctx context.Context, forgotten []string, pending map[string][]exports.Object, contacts map[string]Contact) error {
	for _, id := range forgotten {
		if err := r.memory.forget(ctx, id); err != nil {
			return err
		}
	}
	values := map[string][]byte{}
	for key, objects := range pending {
		value, err := encodeObjects(objects)
		if err != nil {
			return err
		}
		if len(value) > maxRecord {
			klog.FromContext(ctx).Error(nil, "Service has too many endpoints to be recorded, it is not available after a restart until its member is read again", "key", key, "bytes", len(value), "limit", maxRecord)
			value = nil // no record is better than an outdated one
		}
		values[key] = value
	}
	for key, contact := range contacts {
		value, err := encodeContact(contact)
		if err != nil {
			return err
		}
		values[key] = value
	}
	return r.memory.save(ctx, values)
}
