// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// A version is 63 bits: milliseconds since the epoch, bits that tell apart the
// processes that issue versions at the same time, and a sequence number. It
// stays positive as a signed number, which is how continue tokens and others
// carry it, until the milliseconds overflow in 2093.
const (
	sequenceBits = 12
	processBits  = 10
	timeShift    = sequenceBits + processBits
	maxSequence  = 1<<sequenceBits - 1
)

var versionEpoch = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

// Clock issues resource versions. They only grow: when the time of day goes
// back, or more versions are issued in a millisecond than have room in it, the
// clock runs ahead of the time of day. A process needs one, for all its
// stores. It is safe for concurrent use.
type Clock struct {
	clock   clock.PassiveClock
	process uint64

	mu           sync.Mutex
	milliseconds uint64
	sequence     uint64
}

// NewClock returns a clock with process bits of its own.
func NewClock(clock clock.PassiveClock) *Clock {
	return &Clock{clock: clock, process: rand.Uint64N(1 << processBits)}
}

// Next issues a version that is higher than all before.
func (c *Clock) Next() uint64 {
	now := millisecondsSinceEpoch(c.clock.Now())

	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case now > c.milliseconds:
		c.milliseconds, c.sequence = now, 0
	case c.sequence < maxSequence:
		c.sequence++
	default:
		c.milliseconds, c.sequence = c.milliseconds+1, 0
	}
	return c.milliseconds<<timeShift | c.process<<sequenceBits | c.sequence
}

// lowestVersionAt returns a version that is not above any that is issued at
// that time or later.
func lowestVersionAt(t time.Time) uint64 {
	return millisecondsSinceEpoch(t) << timeShift
}

// issuedAt returns when a version was issued, to the millisecond.
func issuedAt(version uint64) time.Time {
	return versionEpoch.Add(time.Duration(version>>timeShift) * time.Millisecond)
}

// millisecondsSinceEpoch is at least 1, since the version 0 means "any".
func millisecondsSinceEpoch(t time.Time) uint64 {
	return uint64(max(t.Sub(versionEpoch).Milliseconds(), 1))
}
