// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clockoffset estimates by how much the clock of a member is ahead of the clock of this
// cluster, from the Date headers of its responses. It is only for measurements: a member may
// send any time.
package clockoffset

import (
	"net/http"
	"sync"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

const (
	// resolution is that of a Date header.
	resolution = time.Second
	// Two clocks differ by one more second after drift seconds at most: those of computers are
	// better, even if they are not synchronized.
	drift = 10_000
	// MaxError is how far off an estimate may be.
	MaxError = clusterset.MaxClockError
)

// Estimate is that of one member. The zero value knows nothing. It is safe for concurrent use.
type Estimate struct {
	mu sync.Mutex
	// The offset was between least and most at that time, which is zero if it is unknown.
	least, most time.Duration
	at          time.Time
}

// Observe takes the Date header of a response, and by the clock of this cluster, when the
// request was sent and the response received. Every response has bounds for the offset. Those of
// several are closer together: requests are sent at different times of a second.
func (e *Estimate) Observe(header string, sent, received time.Time) {
	date, err := http.ParseTime(header)
	if err != nil || received.Before(sent) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	least, most := date.Sub(received), date.Add(resolution).Sub(sent)
	if !e.at.IsZero() {
		widened := received.Sub(e.at).Abs() / drift
		// Bounds that exclude each other are those of a clock that was set: the last ones count.
		if from, to := max(least, e.least-widened), min(most, e.most+widened); from <= to {
			least, most = from, to
		}
	}
	e.least, e.most, e.at = least, most, received
}

// Offset returns by how much the clock of the member is ahead, unless that is unknown or may be
// off by more than MaxError.
func (e *Estimate) Offset() (time.Duration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.at.IsZero() || (e.most-e.least)/2 > MaxError {
		return 0, false
	}
	return e.least + (e.most-e.least)/2, true
}
