// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package peerview

import (
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// viewChanged makes a client list again.
func viewChanged() watch.Event {
	status := apierrors.NewResourceExpired("what this cluster relays to the reading one has changed; list again").Status()
	return watch.Event{Type: watch.Error, Object: &status}
}

// peerWatch redacts the objects of a watch, and ends the watch when the view of the
// peer changes.
type peerWatch struct {
	source   watch.Interface
	changed  <-chan struct{}
	redact   func(runtime.Object) runtime.Object
	result   chan watch.Event
	stopOnce sync.Once
	stopped  chan struct{}
}

var _ watch.Interface = &peerWatch{}

func newPeerWatch(source watch.Interface, changed <-chan struct{}, redact func(runtime.Object) runtime.Object) *peerWatch {
	w := &peerWatch{source: source, changed: changed, redact: redact, result: make(chan watch.Event), stopped: make(chan struct{})}
	go w.run()
	return w
}

// run passes events on until the source ends, which is when the request does.
func (w *peerWatch) run() {
	defer close(w.result)
	defer w.source.Stop()
	for {
		var event watch.Event
		last := false
		select {
		case <-w.changed:
			event, last = viewChanged(), true
		case next, ok := <-w.source.ResultChan():
			if !ok {
				return
			}
			event = w.show(next)
		case <-w.stopped:
			return
		}
		select {
		case w.result <- event:
		case <-w.stopped:
			return
		}
		if last {
			return
		}
	}
}

// show returns an event as the peer sees it.
func (w *peerWatch) show(event watch.Event) watch.Event {
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		// If there are several watchers, the watch cache wraps objects together with
		// their encoding.
		if cached, ok := event.Object.(runtime.CacheableObject); ok {
			event.Object = cached.GetObject()
		}
		event.Object = w.redact(event.Object)
	}
	return event
}

// ResultChan implements watch.Interface.
func (w *peerWatch) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *peerWatch) Stop() { w.stopOnce.Do(func() { close(w.stopped) }) }
