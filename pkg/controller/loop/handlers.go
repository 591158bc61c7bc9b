// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Handlers are the event handlers of a controller, by informer. The informers outlive
// the controller: every replica runs them, but only the leader handles their events.
type Handlers map[cache.SharedIndexInformer]cache.ResourceEventHandler

// Run handles the events of the informers and reconciles the keys of the queue, as
// [Run] does, until the context is canceled. A handler that is added to a running
// informer gets all objects from its cache.
func (h Handlers) Run(ctx context.Context, queue Queue, workers int, reconcile func(context.Context, types.NamespacedName) error) error {
	return RunHandlers(ctx, h, queue, workers, reconcile)
}

// RunHandlers is Handlers.Run for keys of any type.
func RunHandlers[K comparable](ctx context.Context, h Handlers, queue TypedQueue[K], workers int, reconcile func(context.Context, K) error) error {
	synced, detach, err := h.Attach()
	if err != nil {
		return err
	}
	defer detach()
	Run(ctx, queue, workers, synced, reconcile)
	return nil
}

// Attach adds the handlers to their informers. detach removes them; a handler may
// still be running when it returns.
func (h Handlers) Attach() (synced []cache.InformerSynced, detach func(), err error) {
	added := map[cache.SharedIndexInformer]cache.ResourceEventHandlerRegistration{}
	detach = func() {
		for informer, registration := range added {
			_ = informer.RemoveEventHandler(registration) // fails only for handlers of other informers
		}
	}
	for informer, handler := range h {
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			detach()
			return nil, nil, fmt.Errorf("add event handler: %w", err)
		}
		added[informer] = registration
		synced = append(synced, registration.HasSynced)
	}
	return synced, detach, nil
}

// EnsureIndexers adds indexers to an informer, except those that it has already: a
// controller is created more than once, and the informer remains.
func EnsureIndexers(informer cache.SharedIndexInformer, indexers cache.Indexers) error {
	existing, missing := informer.GetIndexer().GetIndexers(), cache.Indexers{}
	for name, indexer := range indexers {
		if existing[name] == nil {
			missing[name] = indexer
		}
	}
	if err := informer.AddIndexers(missing); err != nil {
		return fmt.Errorf("add indexes: %w", err)
	}
	return nil
}
