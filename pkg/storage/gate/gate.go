// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gate tells whether storage can be used, and otherwise why not.
package gate

import (
	"context"
	"errors"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// retryAfterSeconds is sent to clients with a 503.
const retryAfterSeconds = 1

// Unavailable returns a 503 that asks clients to retry.
func Unavailable(message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
		Message: message, Details: &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds},
	}}
}

// Gate is closed while storage cannot be used.
type Gate struct {
	mu sync.Mutex
	// reason is why the gate is closed, or nil.
	reason error
	// changed is closed and replaced whenever the gate opens or closes.
	changed chan struct{}
}

// New returns a closed gate.
func New() *Gate {
	return &Gate{reason: errors.New("storage has not been opened yet"), changed: make(chan struct{})}
}

// Open opens the gate.
func (g *Gate) Open() { g.set(nil) }

// Close closes the gate, or records another reason.
func (g *Gate) Close(reason error) { g.set(reason) }

func (g *Gate) set(reason error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	changed := (g.reason == nil) != (reason == nil)
	g.reason = reason
	if changed {
		close(g.changed)
		g.changed = make(chan struct{})
	}
}

// State returns a channel that is closed when the gate opens or closes, and why the
// gate is closed, or nil.
func (g *Gate) State() (changed <-chan struct{}, reason error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed, g.reason
}

// Usable returns nil if the gate is open, and otherwise a 503 with the reason.
func (g *Gate) Usable() error {
	_, reason := g.State()
	if reason == nil {
		return nil
	}
	return Unavailable("storage is unavailable: " + reason.Error())
}

// Await returns nil when the gate is open, and what Usable returns when the
// context ends.
func (g *Gate) Await(ctx context.Context) error {
	for {
		changed, reason := g.State()
		if reason == nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return g.Usable()
		}
	}
}
