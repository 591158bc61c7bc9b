// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Ensure sets the UID, the creation time and the transition times of an import.
// previous are the conditions that this replica served last. Ensure creates the
// record if it does not exist and updates it when a condition status changes in
// this replica. It does not contradict a replica that lags behind or is ahead,
// since each replica eventually computes the same status.
// The record of a deleted import of the same name is collected first.
func (i *Identities) Ensure(ctx context.Context, key types.NamespacedName, metadata *metav1.ObjectMeta, conditions, previous []metav1.Condition) error {
	if err := i.Collect(ctx, key); err != nil {
		return err
	}
	for {
		held, exists := i.get(key)
		desired := desiredRecord(i.clock.Now(), held, exists, conditions, previous)
		if exists && maps.Equal(desired.Conditions, held.Conditions) {
			held.apply(metadata, conditions, previous)
			return nil
		}
		stored, err := i.write(ctx, key, held, desired)
		if err != nil {
			return fmt.Errorf("write the identity of ServiceImport %s to etcd: %w", key, err)
		}
		stored.apply(metadata, conditions, previous)
		if stored.UID == desired.UID && maps.Equal(stored.Conditions, desired.Conditions) {
			return nil
		}
		// Another replica wrote first. Its record is known now: compare again.
	}
}

// write replaces the held record and returns the record that is stored
// afterwards, which is another replica's if that replica wrote first.
func (i *Identities) write(ctx context.Context, key types.NamespacedName, held, desired record) (record, error) {
	value, err := json.Marshal(desired)
	if err != nil {
		return record{}, err
	}
	path := i.path(key)
	response, err := i.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(path), "=", held.expectedRevision())).
		Then(clientv3.OpPut(path, string(value))).
		Else(clientv3.OpGet(path)).Commit()
	if err != nil {
		return record{}, err
	}
	stored := desired
	stored.revision = response.Header.Revision
	if !response.Succeeded {
		stored = i.stored(response)
	}
	i.replace(key, stored)
	return stored, nil
}

// Tombstone marks an import as deleted. Its record remains until it is
// collected; until then the import cannot be created again, because it would
// get the UID of the deleted one.
func (i *Identities) Tombstone(key types.NamespacedName, uid types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tombstones[key] = uid
}

// Collect deletes the record of an import that is marked as deleted. It does
// nothing for any other import.
func (i *Identities) Collect(ctx context.Context, key types.NamespacedName) error {
	i.mu.Lock()
	uid, marked := i.tombstones[key]
	i.mu.Unlock()
	if !marked {
		return nil
	}
	if err := i.remove(ctx, key, uid); err != nil {
		return fmt.Errorf("delete the identity of ServiceImport %s from etcd: %w", key, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.tombstones, key)
	return nil
}

// remove deletes the record with the UID. A record with another UID belongs to
// an import that another replica has created since, and stays.
func (i *Identities) remove(ctx context.Context, key types.NamespacedName, uid types.UID) error {
	for {
		held, exists := i.get(key)
		if !exists || held.UID != uid {
			return nil
		}
		path := i.path(key)
		response, err := i.client.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(path), "=", held.revision)).
			Then(clientv3.OpDelete(path)).
			Else(clientv3.OpGet(path)).Commit()
		if err != nil {
			return err
		}
		stored := record{revision: response.Header.Revision, deleted: true}
		if !response.Succeeded {
			stored = i.stored(response)
		}
		i.replace(key, stored)
		// Unless the record is deleted, another replica changed it: compare again.
	}
}

// stored returns the record that a failed transaction found.
func (i *Identities) stored(response *clientv3.TxnResponse) record {
	pairs := response.Responses[0].GetResponseRange().Kvs
	if len(pairs) == 0 {
		return record{revision: response.Header.Revision, deleted: true}
	}
	_, found, err := i.parse(pairs[0].Key, pairs[0].Value, pairs[0].ModRevision)
	if err != nil {
		return record{revision: pairs[0].ModRevision} // to be replaced
	}
	return found
}

// replace applies the outcome of a transaction unless a newer one is known.
func (i *Identities) replace(key types.NamespacedName, stored record) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.records[key].revision > stored.revision:
	case stored.deleted && stored.revision <= i.observed:
		delete(i.records, key) // no older event can follow
	default:
		i.records[key] = stored
	}
}
