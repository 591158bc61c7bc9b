// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loop provides what all controllers that reconcile by key share: a queue,
// and workers that reconcile its keys until the context is canceled.
package loop

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/fairqueue"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/tombstone"
)

const (
	minRetry = 50 * time.Millisecond
	maxRetry = 30 * time.Second
	// quietRetries is how many conflicts or existing objects in a row are retried
	// without an error in the log: every cache catches up within that time.
	quietRetries = 6
)

// Queue holds the names of the objects to reconcile.
type Queue = TypedQueue[types.NamespacedName]

// TypedQueue holds the keys of what is to reconcile.
type TypedQueue[K comparable] struct {
	workqueue.TypedRateLimitingInterface[K]
	name string
}

// NewQueue returns a queue. The name identifies its controller in metrics.
func NewQueue(name string) Queue {
	return newQueue(name, workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[types.NamespacedName]{Name: name}))
}

// NewFairQueue returns a queue that is fair between sources: it takes one key of each
// in turn, and at most limit of a source are reconciled at the same time.
func NewFairQueue[K comparable](name string, limit int, source func(K) string) TypedQueue[K] {
	return newQueue(name, fairqueue.New(name, limit, source))
}

func newQueue[K comparable](name string, keys workqueue.TypedInterface[K]) TypedQueue[K] {
	CountPanics(name)
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[K]{Name: name, Queue: keys})
	return TypedQueue[K]{name: name, TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[K](minRetry, maxRetry),
		workqueue.TypedRateLimitingQueueConfig[K]{Name: name, DelayingQueue: delaying})}
}

// Run waits until the caches have synced, reconciles the keys of the queue until
// the context is canceled, and returns when all workers have. Before the caches have
// synced, every derived object would look orphaned. A key that fails is retried with
// exponential back-off. A panic counts as a failure of its key, see [Recover].
func Run[K comparable](ctx context.Context, queue TypedQueue[K], workers int, synced []cache.InformerSynced, reconcile func(context.Context, K) error) {
	defer queue.ShutDown()
	if !cache.WaitForNamedCacheSyncWithContext(ctx, synced...) {
		return
	}
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for next(ctx, queue, reconcile) {
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
	running.Wait()
}

func next[K comparable](ctx context.Context, queue TypedQueue[K], reconcile func(context.Context, K) error) bool {
	key, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(key)
	if ctx.Err() != nil {
		return false // a queue hands out its keys even when it is shut down
	}
	err := Recover(ctx, queue.name, key, func() error { return reconcile(ctx, key) })
	switch {
	case err == nil:
		queue.Forget(key)
	case ctx.Err() != nil:
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		queue.Forget(key) // no object can be created there, and the end of the namespace is an event
	case (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)) && queue.NumRequeues(key) < quietRetries:
		queue.AddRateLimited(key) // the cache lags behind
	default:
		klog.FromContext(ctx).Error(err, "Failed to reconcile, retrying", logValues(key)...)
		queue.AddRateLimited(key)
	}
	return true
}

// logValues returns keys and values that identify a key of a queue in logs.
func logValues(key any) []any {
	switch key := key.(type) {
	case types.NamespacedName:
		return []any{"namespace", key.Namespace, "name", key.Name}
	case interface{ LogValues() []any }:
		return key.LogValues()
	}
	return []any{"key", key}
}

// OnChange returns a handler that calls a function with every state of an object:
// the new one when it is added, both when it is updated, the last one when it is
// deleted.
func OnChange(handle func(metav1.Object)) cache.ResourceEventHandler {
	return OnTransition(func(old, object any) {
		for _, state := range []any{old, object} {
			if state, ok := state.(metav1.Object); ok {
				handle(state)
			}
		}
	})
}

// OnTransition returns a handler that calls a function with the state of an object
// before and after a change. old is nil when the object is added, object when it is
// deleted. The function never gets a cache.DeletedFinalStateUnknown.
func OnTransition(handle func(old, object any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { handle(nil, object) },
		UpdateFunc: handle,
		DeleteFunc: func(object any) { handle(tombstone.Unwrap(object), nil) },
	}
}
