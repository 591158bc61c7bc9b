// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sighting

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Heard is what a process knows about a member from its Lease. Times in a Lease are those of
// the clock of the process that wrote it, which may be wrong. Heard has them as times of this process,
// which go on whatever its clock is set to.
type Heard struct {
	// Sighting is what the Lease said last.
	Sighting
	// newest is the latest time that it said, by whatever clock.
	newest time.Time
	// seen is when the member was last seen, and heard when that was heard.
	seen, heard time.Time
	// lost is set if all that is known is that the member had been lost when that was heard.
	lost bool
}

// Hear returns what is known after a Lease was read. A time in the future counts as now, but
// only once: the Lease may be written again for another reason, or in turns with another. So one
// counts that is later than the last one, also if a clock was even further ahead once. No sighting
// makes an earlier one undone, unless it is one of another cluster.
func (h Heard) Hear(seen Sighting, now time.Time) Heard {
	ahead := isAfter(seen.At, now)
	next := Heard{Sighting: seen, newest: seen.At, seen: here(seen.At, now), heard: now, lost: ahead && seen.Lost}
	if h.UID != seen.UID {
		return next
	}
	known := seen.At.Equal(h.newest) || seen.At.Equal(h.At) || ahead && seen.At.Before(h.At)
	if known || h.seen.After(next.seen) {
		next.seen, next.heard, next.lost = h.seen, h.heard, h.lost && seen.Lost
	}
	if h.newest.After(seen.At) {
		next.newest = h.newest
	}
	return next
}

// SeenAt returns when the member was last seen, zero if it never was. A member that was lost
// had not been seen for its TTL.
func (h Heard) SeenAt(ttl time.Duration) time.Time {
	if h.lost {
		return h.heard.Add(-ttl)
	}
	return h.seen
}

// Resumed returns when the cluster with a UID counts as last seen when this process starts.
// While any replica runs, it sees a member or records that the member was lost. If none of that
// happened for long, or nothing is known, all replicas were down, and that is no silence of the
// member: it counts as seen now. The time is zero if another cluster was seen by its ID.
func (h Heard) Resumed(uid types.UID, now time.Time, ttl time.Duration) time.Time {
	seen := h.SeenAt(ttl)
	switch {
	case h.UID != "" && h.UID != uid:
		return time.Time{}
	case h.UID != uid, seen.IsZero(), !h.Lost && now.Sub(seen) >= 2*ttl:
		return now
	}
	return seen
}

// Rebase returns what is known after the clock of this process may have been set back.
func (h Heard) Rebase(now time.Time) Heard {
	h.seen, h.heard = Rebase(h.seen, now), Rebase(h.heard, now)
	return h
}

// Rebase returns a time of this process such that it is not in the future: the clock was set
// back since.
func Rebase(at, now time.Time) time.Time {
	if !isAfter(at, now) {
		return at
	}
	return now.Add(-max(now.Sub(at), 0))
}

// here returns a time of another clock as one of this process, which is not in the future.
func here(at, now time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return now.Add(-max(now.Round(0).Sub(at), 0))
}

// isAfter compares what clocks show, not how much time has passed in this process.
func isAfter(at, now time.Time) bool { return at.Round(0).After(now.Round(0)) }
