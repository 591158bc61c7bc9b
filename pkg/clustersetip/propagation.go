// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"maps"
	"net/netip"
	"time"
)

// PropagationDelay is how long it may take until everybody has heard of a change, and
// what others did before they heard of it has been heard in turn: five seconds
// there and five back. What takes longer, as between clusters that cannot reach
// each other, can make two decisions that do not go together, of which then only
// the older stands.
const PropagationDelay = 10 * time.Second

// Since is the age of a decision that is made now: that of the export, so that of
// two clusters that export at the same moment the older export's address stands.
// But it is made now if the export had to wait for anything, or if everybody has
// heard of it by now: in the meantime others may have agreed on something, which
// must not look younger.
func Since(exportedAt, now time.Time, waited bool) time.Time {
	if waited || now.Sub(exportedAt) >= PropagationDelay {
		return now
	}
	return exportedAt
}

// Quarantine keeps an address that was held for one service from another one for
// [PropagationDelay]: somebody may have adopted it without being heard yet. The same
// service may have it again at once.
//
// It has an entry for each address that is held, or was until a moment ago. It is
// not safe for concurrent use.
type Quarantine struct {
	entries map[netip.Addr]quarantined
	swept   time.Time
}

type quarantined struct {
	// service may have the address; empty if there was more than one.
	service string
	// until is zero while the address is held.
	until time.Time
}

// Hold says that an address is held for a service.
func (q *Quarantine) Hold(address netip.Addr, service string) {
	q.set(address, service, time.Time{})
}

// Free says that an address has just been given up for a service, and that
// nobody is known to hold it any more.
func (q *Quarantine) Free(address netip.Addr, service string, now time.Time) {
	q.set(address, service, now.Add(PropagationDelay))
	// Now and then is enough: this takes as long as there are entries.
	if now.Sub(q.swept) >= PropagationDelay {
		maps.DeleteFunc(q.entries, func(_ netip.Addr, entry quarantined) bool { return !entry.until.IsZero() && !now.Before(entry.until) })
		q.swept = now
	}
}

func (q *Quarantine) set(address netip.Addr, service string, until time.Time) {
	if q.entries == nil {
		q.entries = map[netip.Addr]quarantined{}
	}
	if before, known := q.entries[address]; known && before.service != service {
		service = ""
	}
	q.entries[address] = quarantined{service, until}
}

// Wait is how long an address must not be given to a service at least, zero if it
// may.
func (q *Quarantine) Wait(address netip.Addr, service string, now time.Time) time.Duration {
	entry, known := q.entries[address]
	switch {
	case !known || entry.service == service:
		return 0
	case entry.until.IsZero():
		return PropagationDelay
	}
	return max(0, entry.until.Sub(now))
}
