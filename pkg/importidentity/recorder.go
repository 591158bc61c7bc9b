// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// work writes and deletes records until the queue is shut down.
func (l *Lives) work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[shard], callbacks Callbacks) {
	for {
		id, shutdown := queue.Get()
		if shutdown {
			return
		}
		if err := l.reconcile(ctx, id, callbacks); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Failed to record the end of ServiceImports, retrying")
			queue.AddRateLimited(id)
		} else {
			queue.Forget(id)
		}
		queue.Done(id)
	}
}

// reconcile records the ends of lives in a document, replaces one that is damaged, or
// deletes the document of a namespace that is gone.
func (l *Lives) reconcile(ctx context.Context, id shard, callbacks Callbacks) error {
	l.mu.Lock()
	namespace, batch := l.known[id].Namespace, maps.Clone(l.ends[id].lives)
	if len(batch) > 0 {
		namespace = l.ends[id].namespace
	}
	damaged := l.damaged.Has(id)
	if wait := l.waitLocked(id); wait > 0 {
		l.enqueueLocked(id, wait)
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	if namespace == "" {
		namespace = l.namespaceOf(id.namespace)
	}
	gone, err := l.gone(ctx, namespace, id.namespace)
	switch {
	case err != nil:
		return fmt.Errorf("get namespace %q: %w", namespace, err)
	case gone:
		err = l.forget(ctx, id)
	case damaged || len(batch) > 0:
		err = l.record(ctx, id, namespace, batch, callbacks)
	}
	if err != nil {
		return fmt.Errorf("update the lives of ServiceImports in namespace %q: %w", namespace, err)
	}
	if len(batch) > 0 {
		callbacks.Changed(namespace, slices.Sorted(maps.Keys(batch)))
	}
	return nil
}

// waitLocked returns how long a document has to wait before ends are recorded in it: until
// it may be written again, and until it is the turn of a member because of which it is written.
func (l *Lives) waitLocked(id shard) time.Duration {
	pending := l.ends[id]
	if len(pending.lives) == 0 {
		l.turns.End(id)
		return 0
	}
	if early := l.pace.Wait(id); early > 0 {
		return early
	}
	return l.turns.Wait(id, pending.causes(), l.known[id].size()+len(pending.lives)*entrySize)
}

// namespaceOf returns the name of a namespace according to the cache; empty if there
// is none. It is for documents that do not tell.
func (l *Lives) namespaceOf(uid types.UID) string {
	namespaces, err := l.config.Namespaces.List(labels.Everything())
	if err != nil {
		return "" // unreachable: caches do not fail
	}
	for _, namespace := range namespaces {
		if namespace.UID == uid {
			return namespace.Name
		}
	}
	return ""
}

// gone reports whether a namespace is gone for certain: the cache may lag behind
// the record of another replica. Without a name, the cache decides.
func (l *Lives) gone(ctx context.Context, name string, uid types.UID) (bool, error) {
	if name == "" || l.exists(name, uid) {
		return name == "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := l.config.GetNamespace(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil && found.UID != uid, err
}

// exists reports whether a namespace exists as far as the cache knows.
func (l *Lives) exists(name string, uid types.UID) bool {
	found, err := l.config.Namespaces.Get(name)
	return err == nil && found.UID == uid
}

// forget deletes a document.
func (l *Lives) forget(ctx context.Context, id shard) error {
	if _, _, err := l.config.Store.Update(ctx, id.String(), func([]byte) ([]byte, error) { return nil, nil }); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, id)
	delete(l.ends, id)
	l.turns.End(id)
	l.damaged.Delete(id)
	return nil
}

// record records that lives are over. If the document is damaged, all names in it
// begin a life that cannot have been used: lives are numbered from 0 on, and there are
// far fewer than milliseconds since 1970.
func (l *Lives) record(ctx context.Context, id shard, namespace string, batch map[string]int64, callbacks Callbacks) error {
	var damage error
	stored, _, err := l.config.Store.Update(ctx, id.String(), func(current []byte) ([]byte, error) {
		var updated document
		now := l.config.Clock.Now()
		if updated, damage = decode(current); damage != nil {
			updated.Base = Life{now.UnixMilli(), now.Unix()}
		}
		l.mu.Lock()
		updated = merge(updated, l.known[id])
		l.mu.Unlock()
		updated.Namespace = namespace
		for name, number := range batch {
			updated.end(name, number, now)
		}
		updated.compact(func() map[string]int64 { return living(id, namespace, callbacks) })
		return json.Marshal(updated)
	})
	if err != nil {
		return err
	}
	if damage != nil {
		damagedRecords.Inc()
		klog.FromContext(ctx).Error(damage, "Replaced a damaged record, the UIDs of the ServiceImports in it change", "record", id.String(), "namespace", namespace)
	}
	l.observe(ctx, id.String(), stored, callbacks.Changed)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.damaged.Delete(id)
	l.pace.Take(id)
	l.turns.End(id)
	held := l.ends[id]
	maps.DeleteFunc(held.lives, func(name string, number int64) bool {
		recorded := batch[name] == number && l.known[id].life(name).Number > number
		if recorded {
			delete(held.members, name)
		}
		return recorded
	})
	if len(held.lives) == 0 {
		delete(l.ends, id)
	}
	return nil
}

// living returns the lives of the imports that exist in a shard.
func living(id shard, namespace string, callbacks Callbacks) map[string]int64 {
	lives := maps.Clone(callbacks.Living(namespace, id.namespace))
	maps.DeleteFunc(lives, func(name string, _ int64) bool { return shardOf(id.namespace, name) != id })
	return lives
}
