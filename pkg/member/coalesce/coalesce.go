// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package coalesce decides when work is done that many ask for, and that is done for all
// of them at once.
package coalesce

import "time"

// Schedule has work done once per interval, however often it is asked for: at once after
// a pause, and otherwise at the end of the interval. It is not safe for concurrent use.
type Schedule struct {
	interval time.Duration
	last     time.Time
	pending  bool
}

// New returns a Schedule of work that was never done.
func New(interval time.Duration) Schedule { return Schedule{interval: interval} }

// Request asks for the work. If it returns zero, the work is to be done now, or, if
// arranged, an earlier caller does it soon. Otherwise, the caller has to see to it that
// the work is done after this time, if it is [Schedule.Due] then.
func (s *Schedule) Request(now time.Time) (wait time.Duration, arranged bool) {
	switch {
	case s.pending:
		return 0, true
	case s.passed(now):
		return 0, false
	}
	s.pending = true
	return s.last.Add(s.interval).Sub(now), false
}

// Due reports whether work that was asked for is to be done now.
func (s *Schedule) Due(now time.Time) bool { return s.pending && s.passed(now) }

// Pending reports whether work was asked for that has not been done.
func (s *Schedule) Pending() bool { return s.pending }

// Done records that the work was done, whether it was asked for or not.
func (s *Schedule) Done(now time.Time) { s.last, s.pending = now, false }

// passed reports whether the interval has passed, also if the clock was set back.
func (s *Schedule) passed(now time.Time) bool {
	return now.Before(s.last) || now.Sub(s.last) >= s.interval
}
