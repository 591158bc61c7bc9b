// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
)

// overLimitPause is how long a member that exports too much is not read.
const overLimitPause = 5 * time.Minute

// maxObjects is how many objects of a kind are read from one member. Beyond
// that the objects read before are kept, and the member's entry reports it: one
// member must not be able to use up the memory of the others.
var maxObjects = [exports.Kinds]int{exports.Services: 10_000, exports.EndpointSlices: 50_000}

// LimitError reports that a member exports more than is read.
type LimitError struct{ Kind exports.Kind }

// Error implements error.
func (e LimitError) Error() string {
	return fmt.Sprintf("member exports more than %d %s, the limit per member: objects read before are kept, and the feed is read again every %s",
		maxObjects[e.Kind], e.Kind, overLimitPause)
}

// exceeded begins a pause.
func (f *Feed) exceeded(kind exports.Kind) error {
	f.mu.Lock()
	f.overLimitUntil[kind] = f.config.Clock.Now().Add(overLimitPause)
	f.mu.Unlock()
	err := LimitError{kind}
	f.config.Sink.ReadFailed(kind, err)
	return err
}

// overLimit returns an error during a pause.
func (f *Feed) overLimit(kind exports.Kind) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.config.Clock.Now().Before(f.overLimitUntil[kind]) {
		return LimitError{kind}
	}
	return nil
}

// limit ends a watch that exceeds the limit, before all objects are in memory.
// known is how many objects there are when the watch begins.
func (f *Feed) limit(watcher watch.Interface, kind exports.Kind, known int) watch.Interface {
	limited := &limitedWatch{incoming: watcher, result: make(chan watch.Event), stopped: make(chan struct{})}
	go limited.run(func(event watch.Event) error {
		switch event.Type {
		case watch.Added:
			known++
		case watch.Deleted:
			known--
		case watch.Error:
			_ = f.failed(kind, apierrors.FromObject(event.Object)) // the reflector ends the watch
		}
		if known > maxObjects[kind] {
			return f.exceeded(kind)
		}
		return nil
	})
	return limited
}

// limitedWatch passes events on until one is refused. watch.Filter could do so
// too, but blocks forever if the reader is gone.
type limitedWatch struct {
	incoming watch.Interface
	result   chan watch.Event
	stopped  chan struct{}
	once     sync.Once
}

// ResultChan implements watch.Interface.
func (w *limitedWatch) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface.
func (w *limitedWatch) Stop() {
	w.once.Do(func() { close(w.stopped) })
	w.incoming.Stop()
}

func (w *limitedWatch) run(check func(watch.Event) error) {
	defer close(w.result)
	defer w.incoming.Stop()
	for {
		var event watch.Event
		select {
		case <-w.stopped:
			return
		case incoming, more := <-w.incoming.ResultChan():
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
		case <-w.stopped:
			return
		case w.result <- event:
		}
		if err != nil {
			return
		}
	}
}

// Reason is the reason of the condition that reports the error.
func (e LimitError) Reason() string { return "TooManyExports" }
