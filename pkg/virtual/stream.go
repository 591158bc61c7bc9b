// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// stream is a watch whose writer never blocks: unread events are buffered
// without a limit. That is safe only because the reader is the watch cache,
// which never stops reading.
type stream struct {
	result   chan watch.Event
	wake     chan struct{}
	stopOnce sync.Once
	stopped  chan struct{}
	finished chan struct{}
	forget   func()

	mu      sync.Mutex
	pending []watch.Event
}

var _ watch.Interface = &stream{}

// newStream returns a stream that calls forget when it ends. It delivers nothing
// until run is called.
func newStream(forget func()) *stream {
	return &stream{
		result:   make(chan watch.Event),
		wake:     make(chan struct{}, 1),
		stopped:  make(chan struct{}),
		finished: make(chan struct{}),
		forget:   forget,
	}
}

// push appends events. It MUST NOT BLOCK: the store calls it while holding its
// lock.
func (s *stream) push(events ...watch.Event) {
	s.mu.Lock()
	s.pending = append(s.pending, events...)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // run has been woken already
	}
}

// run delivers the events until the stream is stopped or the context ends.
func (s *stream) run(ctx context.Context) {
	defer close(s.finished)
	defer close(s.result)
	defer s.forget()
	for {
		for _, event := range s.take() {
			select {
			case s.result <- event:
			case <-s.stopped:
				return
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-s.wake:
		case <-s.stopped:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (s *stream) take() []watch.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := s.pending
	s.pending = nil
	return events
}

// ResultChan implements watch.Interface.
func (s *stream) ResultChan() <-chan watch.Event { return s.result }

// Stop implements watch.Interface.
func (s *stream) Stop() { s.stopOnce.Do(func() { close(s.stopped) }) }
