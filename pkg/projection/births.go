// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Births are the records of all imports, in etcd.
type Births struct {
	client *clientv3.Client
	prefix string
	clock  clock.PassiveClock

	mu      sync.Mutex
	records map[types.NamespacedName]birth
	// followed is the revision up to which news have come.
	followed int64
}

// NewBirths keeps records below a prefix of its own.
func NewBirths(client *clientv3.Client, prefix string, clock clock.PassiveClock) *Births {
	return &Births{client: client, prefix: strings.TrimSuffix(prefix, "/") + "/", clock: clock, records: map[types.NamespacedName]birth{}}
}

func (b *Births) path(key types.NamespacedName) string { return b.prefix + key.String() }

// load reads all records and returns the revision to follow them from.
func (b *Births) load(ctx context.Context) (int64, error) {
	const pageSize = 1000
	records := map[types.NamespacedName]birth{}
	from, revision := b.prefix, int64(0)
	for {
		page, err := b.client.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(b.prefix)), clientv3.WithLimit(pageSize), clientv3.WithRev(revision))
		if err != nil {
			return 0, fmt.Errorf("read the records of imports from etcd: %w", err)
		}
		revision = page.Header.Revision
		for _, pair := range page.Kvs {
			if key, record, err := b.parse(pair.Key, pair.Value, pair.ModRevision); err == nil {
				records[key] = record
			} else {
				klog.FromContext(ctx).Error(err, "A record of an import cannot be read; the import gets a new one", "key", string(pair.Key))
			}
		}
		if !page.More {
			break
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
	b.mu.Lock()
	b.records, b.followed = records, revision
	b.mu.Unlock()
	return revision + 1, nil
}

func (b *Births) parse(path, value []byte, revision int64) (types.NamespacedName, birth, error) {
	namespace, name, ok := strings.Cut(strings.TrimPrefix(string(path), b.prefix), "/")
	if !ok {
		return types.NamespacedName{}, birth{}, fmt.Errorf("the key is not one of ours")
	}
	record := birth{revision: revision}
	if err := json.Unmarshal(value, &record); err != nil {
		return types.NamespacedName{}, birth{}, err
	}
	if record.UID == "" || record.Created.IsZero() {
		return types.NamespacedName{}, birth{}, fmt.Errorf("it lacks UID or time")
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, record, nil
}

// follow takes over what other replicas write, and calls changed for it, until
// the context ends. A watch that breaks is begun anew after reading everything.
func (b *Births) follow(ctx context.Context, from int64, changed func(types.NamespacedName)) {
	for ctx.Err() == nil {
		watching, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		for response := range b.client.Watch(watching, b.prefix, clientv3.WithPrefix(), clientv3.WithRev(from)) {
			if response.Err() != nil {
				break
			}
			for _, event := range response.Events {
				if key, ok := b.observe(event); ok {
					changed(key)
				}
			}
			b.mu.Lock()
			b.followed = response.Header.Revision
			b.mu.Unlock()
			from = response.Header.Revision + 1
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		before := b.keys()
		if revision, err := b.load(ctx); err == nil {
			from = revision
			for _, key := range append(before, b.keys()...) {
				changed(key)
			}
		} else if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Trying again")
		}
	}
}

func (b *Births) observe(event *clientv3.Event) (types.NamespacedName, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if event.Type == clientv3.EventTypeDelete {
		namespace, name, _ := strings.Cut(strings.TrimPrefix(string(event.Kv.Key), b.prefix), "/")
		key := types.NamespacedName{Namespace: namespace, Name: name}
		held, ok := b.records[key]
		if !ok || !held.gone && held.revision > event.Kv.ModRevision {
			return key, false
		}
		delete(b.records, key)
		return key, !held.gone
	}
	key, record, err := b.parse(event.Kv.Key, event.Kv.Value, event.Kv.ModRevision)
	if err != nil || b.records[key].revision >= record.revision {
		return key, false
	}
	b.records[key] = record
	return key, true
}

func (b *Births) keys() []types.NamespacedName {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.records))
}

// all are the UIDs of all imports that there are records of.
func (b *Births) all() map[types.NamespacedName]types.UID {
	b.mu.Lock()
	defer b.mu.Unlock()
	uids := make(map[types.NamespacedName]types.UID, len(b.records))
	for key, record := range b.records {
		if record.UID != "" {
			uids[key] = record.UID
		}
	}
	return uids
}

func (b *Births) get(key types.NamespacedName) (birth, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	record := b.records[key]
	// One without a UID could not be read, or is gone: its revision is known, no more.
	return record, record.UID != ""
}

// certify fills in what the record says of an import. previous are the
// conditions that this replica showed last. A record is made when there is
// none, and changed when a status changes here: another replica that is behind
// or ahead is not contradicted, since each will see what the other sees.
func (b *Births) certify(ctx context.Context, key types.NamespacedName, metadata *metav1.ObjectMeta, conditions, previous []metav1.Condition) error {
	for {
		held, exists := b.get(key)
		wanted := wantedBirth(b.clock.Now(), held, exists, conditions, previous)
		if exists && maps.Equal(wanted.Conditions, held.Conditions) {
			fill(held, metadata, conditions, previous)
			return nil
		}
		won, err := b.write(ctx, key, held, wanted)
		if err != nil {
			return fmt.Errorf("write the record of ServiceImport %s to etcd: %w", key, err)
		}
		fill(won, metadata, conditions, previous)
		if won.UID == wanted.UID && maps.Equal(won.Conditions, wanted.Conditions) {
			return nil
		}
		// Another replica was faster. Its record is known now; look again.
	}
}

// write writes a record in place of the one that is known, and returns the one
// that is there afterwards: another replica's if that was faster.
func (b *Births) write(ctx context.Context, key types.NamespacedName, held, wanted birth) (birth, error) {
	value, err := json.Marshal(wanted)
	if err != nil {
		return birth{}, err
	}
	path := b.path(key)
	response, err := b.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(path), "=", held.expected())).
		Then(clientv3.OpPut(path, string(value))).
		Else(clientv3.OpGet(path)).Commit()
	if err != nil {
		return birth{}, err
	}
	won := wanted
	won.revision = response.Header.Revision
	if !response.Succeeded {
		pairs := response.Responses[0].GetResponseRange().Kvs
		if len(pairs) == 0 { // removed meanwhile
			won = birth{revision: response.Header.Revision, gone: true}
			b.replace(key, won)
			return won, nil
		}
		if _, won, err = b.parse(pairs[0].Key, pairs[0].Value, pairs[0].ModRevision); err != nil {
			won = birth{revision: pairs[0].ModRevision} // to be replaced
		}
	}
	b.replace(key, won)
	return won, nil
}

// end removes the record of an import that has ceased to be. One that another
// replica has made for its next life stays.
func (b *Births) end(ctx context.Context, key types.NamespacedName, uid types.UID) error {
	for {
		held, exists := b.get(key)
		if !exists || held.UID != uid {
			return nil
		}
		path := b.path(key)
		response, err := b.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(path), "=", held.revision)).
			Then(clientv3.OpDelete(path)).
			Else(clientv3.OpGet(path)).Commit()
		if err != nil {
			return fmt.Errorf("remove the record of ServiceImport %s from etcd: %w", key, err)
		}
		now := birth{revision: response.Header.Revision, gone: true}
		if !response.Succeeded {
			if pairs := response.Responses[0].GetResponseRange().Kvs; len(pairs) > 0 {
				if _, now, err = b.parse(pairs[0].Key, pairs[0].Value, pairs[0].ModRevision); err != nil {
					now = birth{revision: pairs[0].ModRevision}
				}
			}
		}
		b.replace(key, now)
		// Unless it is gone, another replica has changed it: look again.
	}
}

// replace takes over what etcd said, if it is newer than what is known.
func (b *Births) replace(key types.NamespacedName, now birth) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.records[key].revision > now.revision:
	case now.gone && now.revision <= b.followed:
		delete(b.records, key) // no older news can come
	default:
		b.records[key] = now
	}
}
