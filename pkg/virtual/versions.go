// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// A version has 63 bits: milliseconds since the epoch, bits that distinguish
// processes that issue versions at the same time, and a sequence number. It
// stays positive as a signed integer, which is how continue tokens encode it,
// until the milliseconds overflow in 2093.
const (
	sequenceBits = 12
	processBits  = 10
	timeShift    = sequenceBits + processBits
	maxSequence  = 1<<sequenceBits - 1
)

var versionEpoch = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

// VersionSource issues resource versions, which increase strictly. When the
// wall clock goes back, or when a millisecond has no sequence numbers left, the
// versions run ahead of the wall clock. All stores of a process share one
// VersionSource. It is safe for concurrent use.
type VersionSource struct {
	clock   clock.PassiveClock
	process uint64

	mu           sync.Mutex
	milliseconds uint64
	sequence     uint64
}

// NewVersionSource returns a VersionSource with random process bits.
func NewVersionSource(clock clock.PassiveClock) *VersionSource {
	return &VersionSource{clock: clock, process: rand.Uint64N(1 << processBits)}
}

// Next issues a version that is higher than all previous ones.
func (s *VersionSource) Next() uint64 {
	now := millisecondsSinceEpoch(s.clock.Now())

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case now > s.milliseconds:
		s.milliseconds, s.sequence = now, 0
	case s.sequence < maxSequence:
		s.sequence++
	default:
		s.milliseconds, s.sequence = s.milliseconds+1, 0
	}
	return s.milliseconds<<timeShift | s.process<<sequenceBits | s.sequence
}

// lowestVersionAt returns a lower bound of the versions that are issued at that
// time or later.
func lowestVersionAt(t time.Time) uint64 {
	return millisecondsSinceEpoch(t) << timeShift
}

// IssuedAt returns when a version was issued, with millisecond precision.
func IssuedAt(version uint64) time.Time {
	return versionEpoch.Add(time.Duration(version>>timeShift) * time.Millisecond)
}

// millisecondsSinceEpoch returns at least 1, because version 0 means "any".
func millisecondsSinceEpoch(t time.Time) uint64 {
	return uint64(max(t.Sub(versionEpoch).Milliseconds(), 1))
}
