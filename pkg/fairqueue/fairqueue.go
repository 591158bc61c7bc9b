// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fairqueue provides a work queue that is fair between the sources of its
// items: one source cannot delay the items of another, however many it adds.
package fairqueue

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// New returns a work queue that takes one item of each source in turn, in the order
// of their addition. At most limit items of a source are processed at the same time,
// so that there are workers for the others; there is no limit if it is zero. The
// name identifies the queue in metrics. source is called with the queue locked.
func New[T comparable](name string, limit int, source func(T) string) workqueue.TypedInterface[T] {
	order := newOrder(limit, source)
	return &queue[T]{workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: order}), order}
}

type queue[T comparable] struct {
	workqueue.TypedInterface[T]
	order *order[T]
}

// Done implements workqueue.TypedInterface. It wakes no worker for an item that was
// held back by the limit: the worker that calls it takes the next item.
func (q *queue[T]) Done(item T) {
	q.order.done(item)
	q.TypedInterface.Done(item)
}

// order decides which item is next. Its exported methods implement workqueue.Queue.
type order[T comparable] struct {
	limit  int
	source func(T) string

	mu sync.Mutex
	// waiting are the items of each source that has any, and turns those sources,
	// the next one first.
	waiting map[string][]T
	turns   []string
	// processed are the items that are being processed and their sources, and
	// running counts them by source.
	processed map[T]string
	running   map[string]int
}

func newOrder[T comparable](limit int, source func(T) string) *order[T] {
	return &order[T]{limit: limit, source: source, waiting: map[string][]T{}, processed: map[T]string{}, running: map[string]int{}}
}

// Touch implements workqueue.Queue: an item that is added again keeps its place.
func (o *order[T]) Touch(T) {}

// Push implements workqueue.Queue.
func (o *order[T]) Push(item T) {
	source := o.source(item)
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting[source]) == 0 {
		o.turns = append(o.turns, source)
	}
	o.waiting[source] = append(o.waiting[source], item)
}

// Len implements workqueue.Queue. Items that are held back by the limit do not count:
// a worker must not wait for them while it could process others.
func (o *order[T]) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	items := 0
	for source, waiting := range o.waiting {
		if !o.limitedLocked(source) {
			items += len(waiting)
		}
	}
	return items
}

// Pop implements workqueue.Queue.
func (o *order[T]) Pop() (item T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, source := range o.turns {
		if o.limitedLocked(source) {
			continue
		}
		o.turns = append(o.turns[:i], o.turns[i+1:]...)
		item, o.waiting[source] = o.waiting[source][0], o.waiting[source][1:]
		if len(o.waiting[source]) > 0 {
			o.turns = append(o.turns, source)
		} else {
			delete(o.waiting, source)
		}
		o.processed[item] = source
		o.running[source]++
		return item
	}
	return item // unreachable: Len is zero
}

func (o *order[T]) limitedLocked(source string) bool {
	return o.limit > 0 && o.running[source] >= o.limit
}

func (o *order[T]) done(item T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	source, ok := o.processed[item]
	if !ok {
		return
	}
	delete(o.processed, item)
	if o.running[source]--; o.running[source] == 0 {
		delete(o.running, source)
	}
}
