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
func (l *Limiter[K]) Take(key K) time.Duration {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	reservation := l.limiterLocked(key, now).ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
	}
	return wait
}

// Wait returns how long to wait until the action is allowed, zero if it is allowed now.
// Nothing counts.
func (l *Limiter[K]) Wait(key K) time.Duration {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.keys[key]
	if limiter == nil {
		return 0
	}
	reservation := limiter.ReserveN(now, 1)
	defer reservation.CancelAt(now)
	return reservation.DelayFrom(now)
}

// Reserve counts a number of actions, such as bytes that are written, and returns how
// long to wait until they are allowed. They may be more than a burst. What is reserved
// later is allowed later: nobody has to ask again, and nobody waits forever.
func (l *Limiter[K]) Reserve(key K, actions int) (wait time.Duration) {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.limiterLocked(key, now)
	for ; actions > 0; actions -= l.burst {
		wait = limiter.ReserveN(now, min(actions, l.burst)).DelayFrom(now)
	}
	return wait
}

func (l *Limiter[K]) limiterLocked(key K, now time.Time) *rate.Limiter {
	limiter := l.keys[key]
	if limiter == nil {
		l.sweepLocked(now)
		limiter = rate.NewLimiter(rate.Every(l.interval), l.burst)
		l.keys[key] = limiter
	}
	return limiter
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
