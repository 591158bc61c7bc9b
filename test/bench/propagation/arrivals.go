// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package propagation measures how long changes take from one cluster to another, as multiples
// of the time from a write to a kube-apiserver to the watch event that it causes there.
package propagation

import (
	"fmt"
	"sync"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/bench/report"
)

// kind is a kind of changes.
type kind string

// Kinds of changes.
const (
	// floor is one hop: a write to a kube-apiserver, seen by a watch of the same kube-apiserver.
	floor    kind = "floor"
	export   kind = "export → import"
	endpoint kind = "endpoint → imported slice"
	unexport kind = "unexport → deleted import"
)

var kinds = []kind{floor, export, endpoint, unexport}

// arrivals measures how long after a change it is seen. It is safe for concurrent use.
type arrivals struct {
	mu    sync.Mutex
	begun time.Time
	// pending are the changes that were not seen yet, by what changes, in the order in which they
	// were made.
	pending map[string][]departure
	samples map[kind][]report.Sample
}

// departure is a change that was made.
type departure struct {
	kind kind
	// number grows with each change of the same object.
	number int
	at     time.Time
}

func newArrivals() *arrivals {
	a := &arrivals{}
	a.reset()
	return a
}

// reset forgets all samples, and begins another run.
func (a *arrivals) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun, a.pending, a.samples = time.Now(), map[string][]departure{}, map[kind][]report.Sample{}
}

// depart begins a change of something.
func (a *arrivals) depart(of kind, what string, number int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending[what] = append(a.pending[what], departure{of, number, time.Now()})
}

// arrive ends a change, and earlier ones of the same object that nobody saw: one that is made while
// the last is under way supersedes it. Other changes are ignored.
func (a *arrivals) arrive(what string, number int) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	var later []departure
	for _, left := range a.pending[what] {
		if left.number > number {
			later = append(later, left)
			continue
		}
		a.samples[left.kind] = append(a.samples[left.kind], report.Sample{At: left.at.Sub(a.begun), Took: now.Sub(left.at)})
	}
	if len(later) > 0 {
		a.pending[what] = later
	} else {
		delete(a.pending, what)
	}
}

// missing returns an error if changes have not arrived.
func (a *arrivals) missing() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for what, changes := range a.pending {
		return fmt.Errorf("%d objects have not changed, such as %s (%s), %s after", len(a.pending), what, changes[0].kind, time.Since(changes[0].at).Round(time.Millisecond))
	}
	return nil
}

// measured returns the samples of the run.
func (a *arrivals) measured() map[kind][]report.Sample {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.samples
}
