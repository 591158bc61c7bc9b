// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

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
)

const (
	// writeDelay collects changes before they are written.
	writeDelay = time.Second
	// sightingInterval is how far the written time of a sighting may lag.
	sightingInterval = 30 * time.Second
	writeTimeout     = 10 * time.Second
)

// recorder writes to the memory what the registry tells it, in batches and in
// the background: nobody waits for etcd.
type recorder struct {
	memory *Memory
	clock  clock.WithTicker

	mu sync.Mutex
	// forgotten are members to be removed before anything is written.
	forgotten []string
	// pending are the facts to be written, by key.
	pending map[string][]fact
	// sightings are those that have not been written, by key.
	sightings map[string]sight
	written   map[string]time.Time
	wake      chan struct{}
}

// sight is how a member was last seen.
type sight struct {
	at time.Time
	// claimedAt is since when it claimed its id, and secret what led to it.
	claimedAt time.Time
	secret    string
	cidrs     []string
	relayed   map[string]*clusterset.Member
	// lost is true if the member has been silent for too long since.
	lost bool
}

func newRecorder(memory *Memory, clock clock.WithTicker) *recorder {
	return &recorder{
		memory: memory, clock: clock, pending: map[string][]fact{}, sightings: map[string]sight{},
		written: map[string]time.Time{}, wake: make(chan struct{}, 1),
	}
}

// load reads the memory. It tries until it has, or the context ends: without
// it, everything would look as if nothing had been exported.
func (r *recorder) load(ctx context.Context) (map[string]Remembered, error) {
	logger := klog.FromContext(ctx)
	for {
		remembered, err := r.memory.load(ctx, func(key string, err error) {
			logger.Error(err, "A record of what a member exported cannot be read and is left out", "key", key)
		})
		if err == nil || ctx.Err() != nil {
			return remembered, err
		}
		logger.Error(err, "What the members exported cannot be read from etcd yet")
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-r.clock.After(writeDelay):
		}
	}
}

// record notes what is known of a service now.
func (r *recorder) record(id string, uid types.UID, cluster string, service types.NamespacedName, facts []fact) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(facts, func(a, b fact) int { return strings.Compare(a.name, b.name) }) // the same in every replica
	r.pending[recordKey{id, uid, cluster, service}.String()] = facts
	r.wakeUp()
}

// seen notes when a member was seen. It is written now and then.
func (r *recorder) seen(id string, uid types.UID, sight sight) {
	if uid == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := seenKey(id, uid)
	if sight.at.Sub(r.written[key]) < sightingInterval {
		return
	}
	r.written[key] = sight.at
	r.sightings[key] = sight
	r.wakeUp()
}

// lost notes that a member was not seen again for too long.
func (r *recorder) lost(id string, uid types.UID, sight sight) {
	if uid == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := seenKey(id, uid)
	delete(r.written, key) // that it is seen again is written at once
	sight.lost = true
	r.sightings[key] = sight
	r.wakeUp()
}

// forget removes a member, and what was to be written of it.
func (r *recorder) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgotten = append(r.forgotten, id)
	for _, key := range keysBelow(r.pending, id) {
		delete(r.pending, key)
	}
	for _, key := range keysBelow(r.sightings, id) {
		delete(r.sightings, key)
	}
	for _, key := range keysBelow(r.written, id) {
		delete(r.written, key)
	}
	r.wakeUp()
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

func (r *recorder) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run writes until the context ends, and then once more what is left.
func (r *recorder) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
			r.flush(last)
			cancel()
			return
		case <-r.wake:
		}
		_ = wait.PollUntilContextCancel(ctx, writeDelay, false, func(ctx context.Context) (bool, error) {
			return r.flush(ctx), nil
		})
	}
}

// flush writes everything that is to be written, and says whether it could.
// What could not be written stays to be written, unless it has changed since.
func (r *recorder) flush(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	logger := klog.FromContext(ctx)
	r.mu.Lock()
	forgotten, pending, sightings := r.forgotten, r.pending, r.sightings
	r.forgotten, r.pending, r.sightings = nil, map[string][]fact{}, map[string]sight{}
	r.mu.Unlock()

	err := r.write(ctx, forgotten, pending, sightings)
	if err == nil {
		return true
	}
	logger.Error(err, "What members export cannot be written to etcd; trying again")
	r.mu.Lock()
	defer r.mu.Unlock()
	restore(r.pending, pending, r.forgotten)
	restore(r.sightings, sightings, r.forgotten)
	r.forgotten = append(forgotten, r.forgotten...)
	return false
}

// restore puts back what was taken out, except for what is newer, and what was
// forgotten meanwhile.
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

func (r *recorder) write(ctx context.Context, forgotten []string, pending map[string][]fact, sightings map[string]sight) error {
	for _, id := range forgotten {
		if err := r.memory.forget(ctx, id); err != nil {
			return err
		}
	}
	values := map[string][]byte{}
	for key, facts := range pending {
		value, err := encodeFacts(facts)
		if err != nil {
			return err
		}
		if len(value) > maxRecord {
			klog.FromContext(ctx).Error(nil, "A service has too many endpoints to be remembered over a restart", "key", key, "bytes", len(value), "most", maxRecord)
			value = nil // rather nothing than what is no longer so
		}
		values[key] = value
	}
	for key, sight := range sightings {
		value, err := encodeSighting(sight)
		if err != nil {
			return err
		}
		values[key] = value
	}
	return r.memory.save(ctx, values)
}
