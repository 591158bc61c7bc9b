// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"maps"
	"math"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// turnValid is how long a turn is kept that is not used, and minTurns how many are
	// before those are looked for.
	turnValid = time.Minute
	minTurns  = 1024
)

// Turns limits the bytes that are written because of each member. A key that has to wait
// gets its turn after those of the same member that wait already: small changes do not
// overtake large ones again and again, and no key is looked at more often than it changes.
// It is safe for concurrent use.
type Turns[K comparable] struct {
	clock clock.PassiveClock
	limit *Limiter[string]

	mu    sync.Mutex
	turns map[K]map[string]turn // by member
	sweep int                   // the number of keys at which unused turns are removed
}

// turn is from when on a key may write how many bytes.
type turn struct {
	from  time.Time
	bytes int
}

// NewTurns returns turns for a number of bytes per second for each member, after a number
// of bytes at once.
func NewTurns[K comparable](clock clock.PassiveClock, perSecond, burst int) *Turns[K] {
	return &Turns[K]{clock: clock, limit: New[string](clock, time.Second/time.Duration(perSecond), burst), turns: map[K]map[string]turn{}, sweep: minTurns}
}

// Wait returns how long a key has to wait before it may write a number of bytes because of
// one of several members. They count for each of them from now on. If they become more while
// it waits, it waits for those as well; they do not become more without end, so that its turn
// comes.
func (t *Turns[K]) Wait(key K, members []string, bytes int) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	turns := t.turns[key]
	if turns == nil {
		t.sweepLocked(now)
		turns = map[string]turn{}
		t.turns[key] = turns
	}
	shortest := time.Duration(math.MaxInt64)
	for _, member := range members {
		turn := turns[member]
		if more := bytes - turn.bytes; more > 0 {
			turn.bytes, turn.from = bytes, now.Add(t.limit.Reserve(member, more))
			turns[member] = turn
		}
		shortest = min(shortest, max(0, turn.from.Sub(now)))
	}
	return shortest
}

// Charge counts a number of bytes for each of several members that were written without a turn.
func (t *Turns[K]) Charge(members []string, bytes int) {
	for _, member := range members {
		t.limit.Reserve(member, bytes)
	}
}

// End ends the turn of a key.
func (t *Turns[K]) End(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.turns, key)
}

// sweepLocked removes turns that are not used, because there is nothing to be written any
// more. It does so when their number has doubled, so that a turn costs little on average.
func (t *Turns[K]) sweepLocked(now time.Time) {
	if len(t.turns) < t.sweep {
		return
	}
	for key, turns := range t.turns {
		maps.DeleteFunc(turns, func(_ string, turn turn) bool { return now.Sub(turn.from) > turnValid })
		if len(turns) == 0 {
			delete(t.turns, key)
		}
	}
	t.sweep = max(minTurns, 2*len(t.turns))
}
