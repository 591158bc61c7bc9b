// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endingwatch ends watches in such a way that clients list again.
package endingwatch

import (
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
)

// End returns the event that ends a watch: it makes clients list again, and says why.
func End(why string) watch.Event {
	status := apierrors.NewResourceExpired(why + "; list again").Status()
	return watch.Event{Type: watch.Error, Object: &status}
}

// endingWatch passes the events of another watch on until a signal.
type endingWatch struct {
	source   watch.Interface
	ended    <-chan struct{}
	why      string
	show     func(watch.Event) watch.Event
	result   chan watch.Event
	stopOnce sync.Once
	stopped  chan struct{}
}

// New returns a watch with the events of another one, as show returns them. When the channel
// is closed, it ends with status 410, which says why.
func New(source watch.Interface, ended <-chan struct{}, why string, show func(watch.Event) watch.Event) watch.Interface {
	w := &endingWatch{source: source, ended: ended, why: why, show: show, result: make(chan watch.Event), stopped: make(chan struct{})}
	go w.run()
	return w
}

// ResultChan implements watch.Interface.
func (w *endingWatch) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *endingWatch) Stop() { w.stopOnce.Do(func() { close(w.stopped) }) }

// run passes events on until the source ends, which is when the request does.
func (w *endingWatch) run() {
	defer close(w.result)
	defer w.source.Stop()
	for {
		var event watch.Event
		last := false
		select {
		case <-w.ended:
			event, last = End(w.why), true
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
