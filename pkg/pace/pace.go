// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pace limits how often something is done for each key.
package pace

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

// minSweep is how many keys are held before unused ones are looked for.
const minSweep = 1024

// Limiter allows an action once per interval for each key, and a number of them at
// once after a pause: what changes once in a while is not delayed. It is safe for
// concurrent use.
type Limiter[K comparable] struct {
	clock    clock.PassiveClock
	interval time.Duration
	burst    int

	mu    sync.Mutex
	keys  map[K]*rate.Limiter
	sweep int // the number of keys at which unused ones are removed
}

// New returns a limiter.
func New[K comparable](clock clock.PassiveClock, interval time.Duration, burst int) *Limiter[K] {
	return &Limiter[K]{clock: clock, interval: interval, burst: burst, keys: map[K]*rate.Limiter{}, sweep: minSweep}
}

// Take returns zero if the action is allowed now, which then counts. Otherwise it
// returns how long to wait before asking again.
func (l *Limiter[K]) Take(key K) time.Duration { return l.TakeN(key, 1) }

// TakeN is like Take for n actions, such as bytes that are written. More than a burst are as many as a
// burst: they are allowed when nothing was for long enough.
func (l *Limiter[K]) TakeN(key K, n int) time.Duration {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.keys[key]
	if limiter == nil {
		l.sweepLocked(now)
		limiter = rate.NewLimiter(rate.Every(l.interval), l.burst)
		l.keys[key] = limiter
	}
	reservation := limiter.ReserveN(now, min(n, l.burst))
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// sweepLocked removes keys that are allowed a full burst, as new ones are. It does so
// when the number of keys has doubled, so that a key costs little on average.
func (l *Limiter[K]) sweepLocked(now time.Time) {
	if len(l.keys) < l.sweep {
		return
	}
	for key, limiter := range l.keys {
		if limiter.TokensAt(now) >= float64(l.burst) {
			delete(l.keys, key)
		}
	}
	l.sweep = max(minSweep, 2*len(l.keys))
}
