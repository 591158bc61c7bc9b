// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package handback ends watches when the API returns to the CRDs of another implementation.
// Clients then list again, from the kube-apiserver. If the watches just ended, clients would
// continue them there with resourceVersions of mcs-apiserver, which the kube-apiserver takes
// for the future: it would never send them an event.
package handback

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/registry/endingwatch"
)

// Signal ends watches when the API returns to CRDs.
type Signal struct {
	mu       sync.Mutex
	returned chan struct{}
}

// NewSignal returns a signal that ends no watch yet.
func NewSignal() *Signal { return &Signal{returned: make(chan struct{})} }

// End ends all open watches. Those that are opened later go on: they are watches of what
// mcs-apiserver still serves, or serves again. It does not block.
func (s *Signal) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.returned)
	s.returned = make(chan struct{})
}

type contextKey struct{}

// WithSignal returns a context in which watches end when the API returns to CRDs.
func (s *Signal) WithSignal(ctx context.Context) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return context.WithValue(ctx, contextKey{}, (<-chan struct{})(s.returned))
}

// Watcher ends the watches of another Watcher when the signal of their context says so.
type Watcher struct {
	rest.Watcher
}

// Watch implements rest.Watcher.
func (w Watcher) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	source, err := w.Watcher.Watch(ctx, options)
	returned, ok := ctx.Value(contextKey{}).(<-chan struct{})
	if err != nil || !ok {
		return source, err
	}
	unchanged := func(event watch.Event) watch.Event { return event }
	return endingwatch.New(source, returned, "the API returned to the CustomResourceDefinitions of another implementation", unchanged), nil
}
