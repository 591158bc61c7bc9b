// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package importidentity persists the identity of ServiceImports in etcd.
//
// A ServiceImport is computed, but clients rely on its UID, creationTimestamp
// and condition transition times: they must be the same in every replica and
// after a restart, stable while the import exists, and different when an import
// of the same name is created again.
package importidentity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// retryPeriod is the delay before etcd is asked again after a failure.
const retryPeriod = time.Second

// Identities holds the identity records of all ServiceImports. It is safe for
// concurrent use.
type Identities struct {
	client *clientv3.Client
	prefix string
	clock  clock.PassiveClock

	mu      sync.Mutex
	records map[types.NamespacedName]record
	// observed is the revision up to which events have been observed.
	observed int64
	// tombstones are the UIDs of deleted imports whose records may still exist.
	tombstones map[types.NamespacedName]types.UID
}

// New returns Identities that keeps its records below the prefix.
func New(client *clientv3.Client, prefix string, clock clock.PassiveClock) *Identities {
	return &Identities{
		client: client, prefix: strings.TrimSuffix(prefix, "/") + "/", clock: clock,
		records: map[types.NamespacedName]record{}, tombstones: map[types.NamespacedName]types.UID{},
	}
}

func (i *Identities) path(key types.NamespacedName) string { return i.prefix + key.String() }

// Load reads all records, retrying until it succeeds or the context ends. It
// returns the revision to follow the records from.
func (i *Identities) Load(ctx context.Context) (int64, error) {
	for {
		revision, err := i.list(ctx)
		if err == nil || ctx.Err() != nil {
			return revision, err
		}
		klog.FromContext(ctx).Error(err, "Failed to load ServiceImport identities, retrying")
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(retryPeriod):
		}
	}
}

// list reads all records once and returns the revision to follow them from.
func (i *Identities) list(ctx context.Context) (int64, error) {
	const pageSize = 1000
	records := map[types.NamespacedName]record{}
	from, revision := i.prefix, int64(0)
	for {
		page, err := i.client.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(i.prefix)), clientv3.WithLimit(pageSize), clientv3.WithRev(revision))
		if err != nil {
			return 0, fmt.Errorf("list ServiceImport identities in etcd: %w", err)
		}
		revision = page.Header.Revision
		for _, pair := range page.Kvs {
			if key, record, err := i.parse(pair.Key, pair.Value, pair.ModRevision); err == nil {
				records[key] = record
			} else {
				klog.FromContext(ctx).Error(err, "Failed to decode the identity of a ServiceImport, replacing it", "key", string(pair.Key))
			}
		}
		if !page.More {
			break
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
	i.mu.Lock()
	i.records, i.observed = records, revision
	i.mu.Unlock()
	return revision + 1, nil
}

func (i *Identities) parse(path, value []byte, revision int64) (types.NamespacedName, record, error) {
	key, ok := i.key(path)
	if !ok {
		return key, record{}, errors.New("key has no namespace and name")
	}
	parsed := record{revision: revision}
	if err := json.Unmarshal(value, &parsed); err != nil {
		return key, record{}, err
	}
	if parsed.UID == "" || parsed.Created.IsZero() {
		return key, record{}, errors.New("record has no UID or no creation time")
	}
	return key, parsed, nil
}

// key returns the import that a path in etcd belongs to.
func (i *Identities) key(path []byte) (types.NamespacedName, bool) {
	namespace, name, ok := strings.Cut(strings.TrimPrefix(string(path), i.prefix), "/")
	return types.NamespacedName{Namespace: namespace, Name: name}, ok
}

// Follow observes what other replicas write, from a revision that Load
// returned, and calls notify for every import whose record changed, until the
// context ends. After a broken watch all records are read again.
func (i *Identities) Follow(ctx context.Context, from int64, notify func(types.NamespacedName)) {
	for ctx.Err() == nil {
		from = i.watch(ctx, from, notify)
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryPeriod):
		}
		before := i.keys()
		if revision, err := i.list(ctx); err == nil {
			from = revision
			for _, key := range append(before, i.keys()...) {
				notify(key)
			}
		} else if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to reload ServiceImport identities, retrying")
		}
	}
}

// watch observes events until the watch breaks and returns the revision to
// continue from.
func (i *Identities) watch(ctx context.Context, from int64, notify func(types.NamespacedName)) int64 {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for response := range i.client.Watch(ctx, i.prefix, clientv3.WithPrefix(), clientv3.WithRev(from)) {
		if response.Err() != nil {
			break
		}
		for _, event := range response.Events {
			if key, ok := i.observe(event); ok {
				notify(key)
			}
		}
		i.mu.Lock()
		i.observed = response.Header.Revision
		i.mu.Unlock()
		from = response.Header.Revision + 1
	}
	return from
}

// observe applies an event and reports whether it changed what is known.
func (i *Identities) observe(event *clientv3.Event) (types.NamespacedName, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if event.Type == clientv3.EventTypeDelete {
		key, _ := i.key(event.Kv.Key)
		held, ok := i.records[key]
		if !ok || !held.deleted && held.revision > event.Kv.ModRevision {
			return key, false
		}
		delete(i.records, key)
		return key, !held.deleted
	}
	key, updated, err := i.parse(event.Kv.Key, event.Kv.Value, event.Kv.ModRevision)
	if err != nil || i.records[key].revision >= updated.revision {
		return key, false
	}
	i.records[key] = updated
	return key, true
}

func (i *Identities) keys() []types.NamespacedName {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Keys(i.records))
}

// UIDs returns the UIDs of all imports that have a record.
func (i *Identities) UIDs() map[types.NamespacedName]types.UID {
	i.mu.Lock()
	defer i.mu.Unlock()
	uids := make(map[types.NamespacedName]types.UID, len(i.records))
	for key, held := range i.records {
		if held.UID != "" {
			uids[key] = held.UID
		}
	}
	return uids
}

// get returns the record of an import and whether it exists. A record without a
// UID was deleted or could not be decoded; only its revision is known.
func (i *Identities) get(key types.NamespacedName) (record, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	held := i.records[key]
	return held, held.UID != ""
}
