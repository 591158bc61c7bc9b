// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loop is what all controllers that go by a key have in common: a
// queue, and workers that take keys from it until they are done.
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

	"github.com/mcs-apiserver/mcs-apiserver/pkg/tombstone"
)

const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 30 * time.Second
	// quietRetries is how often in a row a write may come too late, or find
	// what it makes already made, before that is an error: by then every cache
	// has caught up.
	quietRetries = 6
)

// Queue holds the names of what has to be looked at.
type Queue = workqueue.TypedRateLimitingInterface[types.NamespacedName]

// NewQueue returns a queue. Its name is that of its metrics.
func NewQueue(name string) Queue {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRetry, lastRetry),
		workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{Name: name})
}

// Run waits for the caches and then works off the queue until the context ends.
// It returns when all workers have. Before the caches are complete, everything
// would look like a leftover. What fails is tried again, later and later.
func Run(ctx context.Context, queue Queue, workers int, synced []cache.InformerSynced, work func(context.Context, types.NamespacedName) error) {
	defer queue.ShutDown()
	if !cache.WaitForNamedCacheSyncWithContext(ctx, synced...) {
		return
	}
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for next(ctx, queue, work) {
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
	running.Wait()
}

func next(ctx context.Context, queue Queue, work func(context.Context, types.NamespacedName) error) bool {
	key, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(key)
	if ctx.Err() != nil {
		return false // a queue is emptied before it is shut down
	}
	err := work(ctx, key)
	switch {
	case err == nil:
		queue.Forget(key)
	case ctx.Err() != nil:
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		queue.Forget(key) // nothing can be made there any more, and its end will be noticed
	case (apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)) && queue.NumRequeues(key) < quietRetries:
		queue.AddRateLimited(key) // the cache is a little behind
	default:
		klog.FromContext(ctx).Error(err, "Trying again", "namespace", key.Namespace, "name", key.Name)
		queue.AddRateLimited(key)
	}
	return true
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
