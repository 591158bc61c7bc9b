// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

const (
	// startInterval is the minimum time between two feeds of a member: each reads
	// everything.
	startInterval = time.Second
	// evaluationInterval is the minimum time between two changes of claims: all members may
	// have to be evaluated with each of them.
	evaluationInterval = 100 * time.Millisecond
	// probeInterval is the minimum time between two probes, after probeBurst at once. A member
	// can have itself probed by what it exports, and a hub may say something else about a
	// thousand clusters each time.
	probeInterval, probeBurst = time.Second, 10
	// requestRate is how many requests are sent to a member per second, after requestBurst at
	// once: more than lists with all their pages take. A reflector repeats some requests
	// without a delay, for example if the resource version is said to be expired, so that
	// a member could keep this process busy.
	requestRate, requestBurst = 10, maxPages + 100
)

// Budget is how much, and how often, is read from a member. The feeds of a member share
// it, one after the other: it gets no more by having them start anew, as a member does that
// becomes another cluster with every probe.
type Budget struct {
	// bandwidth limits how many bytes are read.
	bandwidth *rate.Limiter
	// requests limits how many requests are sent.
	requests               *rate.Limiter
	starts, probes, claims pace
}

// NewBudget returns the budget of a member whose exports may take so much memory.
func NewBudget(memoryLimit int64) *Budget {
	return &Budget{
		bandwidth: newBandwidth(memoryLimit), requests: rate.NewLimiter(requestRate, requestBurst),
		starts: pace{interval: startInterval}, probes: pace{interval: probeInterval, burst: probeBurst}, claims: pace{interval: evaluationInterval},
	}
}

// pace keeps an interval between events, after a burst of them, if it is more than one.
type pace struct {
	interval time.Duration
	burst    int
	mu       sync.Mutex
	// next is the earliest time of the next event without any burst.
	next time.Time
}

// await waits until it is time for an event, or the context ends.
func (p *pace) await(ctx context.Context, clock clock.Clock) {
	if wait := p.reserve(clock.Now()); wait > 0 {
		select {
		case <-ctx.Done():
		case <-clock.After(wait):
		}
	}
}

// reserve returns how long to wait for an event.
func (p *pace) reserve(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	ahead := time.Duration(max(p.burst, 1)-1) * p.interval
	at := p.next
	if at.Before(now) || at.Sub(now) > ahead+p.interval { // or the clock was set back
		at = now
	}
	p.next = at.Add(p.interval)
	return max(at.Sub(now)-ahead, 0)
}
