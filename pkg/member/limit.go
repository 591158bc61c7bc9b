// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// overLimitPause is how long a member that exports too much is left alone.
const overLimitPause = 5 * time.Minute

// mostObjects is how many objects of a kind are taken from one member.
// Beyond that what was known before stays as it is, and the member's entry
// says so: one member must not be able to use up the memory of the others.
var mostObjects = [kinds]int{services: 10_000, endpointSlices: 50_000}

type overLimitError struct{ kind kind }

func (e overLimitError) Error() string {
	return fmt.Sprintf("it has more than %d %s, which is the most that is taken from one member; "+
		"what was known before stays, and it is asked again every %s", mostObjects[e.kind], e.kind, overLimitPause)
}

// exceeded begins a pause.
func (f *feed) exceeded(kind kind) error {
	f.mu.Lock()
	f.overLimitUntil[kind] = f.registry.config.Clock.Now().Add(overLimitPause)
	f.mu.Unlock()
	err := overLimitError{kind}
	f.registry.feedFailed(f, kind, err)
	return err
}

// overLimit is an error during a pause.
func (f *feed) overLimit(kind kind) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.registry.config.Clock.Now().Before(f.overLimitUntil[kind]) {
		return overLimitError{kind}
	}
	return nil
}

// bounded ends a watch that brings more than may be held, before all of it is
// in memory. known is how many objects there are when the watch begins.
func (f *feed) bounded(watcher watch.Interface, kind kind, known int) watch.Interface {
	bounded := &boundedWatch{incoming: watcher, result: make(chan watch.Event), stopped: make(chan struct{})}
	go bounded.run(func(event watch.Event) error {
		switch event.Type {
		case watch.Added:
			known++
		case watch.Deleted:
			known--
		case watch.Error:
			_ = f.failed(kind, apierrors.FromObject(event.Object)) // the reflector ends the watch
		}
		if known > mostObjects[kind] {
			return f.exceeded(kind)
		}
		return nil
	})
	return bounded
}

// boundedWatch passes events on until one is refused. watch.Filter could do
// so too, but waits for ever when nobody takes an event any more.
type boundedWatch struct {
	incoming watch.Interface
	result   chan watch.Event
	stopped  chan struct{}
	once     sync.Once
}

// ResultChan implements watch.Interface.
func (b *boundedWatch) ResultChan() <-chan watch.Event { return b.result }

// Stop implements watch.Interface.
func (b *boundedWatch) Stop() {
	b.once.Do(func() { close(b.stopped) })
	b.incoming.Stop()
}

func (b *boundedWatch) run(check func(watch.Event) error) {
	defer close(b.result)
	defer b.incoming.Stop()
	for {
		var event watch.Event
		select {
		case <-b.stopped:
			return
		case incoming, more := <-b.incoming.ResultChan():
			if !more {
				return
			}
			event = incoming
		}
		err := check(event)
		if err != nil {
			event = watch.Event{Type: watch.Error, Object: &metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusRequestEntityTooLarge,
				Reason: metav1.StatusReasonRequestEntityTooLarge, Message: err.Error(),
			}}
		}
		select {
		case <-b.stopped:
			return
		case b.result <- event:
		}
		if err != nil {
			return
		}
	}
}
