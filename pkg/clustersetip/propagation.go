// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"maps"
	"net/netip"
	"time"
)

// PropagationDelay is how long it takes until all clusters have seen a change, and until
// the effects of what they did before they saw it are visible in turn: five seconds in
// each direction. A longer delay, as between clusters that cannot reach each other, may
// lead to contradicting decisions; only the older one stands.
const PropagationDelay = 10 * time.Second

// Since returns the time of a decision that is made now. It is the time of the export,
// so that when two clusters export at the same moment the address of the older export
// stands. It is the current time if the export had to wait, or if all clusters know it
// by now: they may have agreed on another decision, which must not look younger.
func Since(exportedAt, now time.Time, waited bool) time.Time {
	if waited || now.Sub(exportedAt) >= PropagationDelay {
		return now
	}
	return exportedAt
}

// Quarantine keeps a released address from other services for the [PropagationDelay]: a
// cluster may have adopted it without that being visible yet. The same service may get
// it again at once.
//
// It has an entry for each address that is held or was released recently. It is not
// safe for concurrent use.
type Quarantine struct {
	entries map[netip.Addr]quarantined
	swept   time.Time
}

type quarantined struct {
	// service may get the address; empty if more than one service held it.
	service string
	// until is zero while the address is held.
	until time.Time
}

// Hold records that a service holds an address.
func (q *Quarantine) Hold(address netip.Addr, service string) {
	q.set(address, service, time.Time{})
}

// Release records that a service released an address, and that no export is known to
// hold it any longer.
func (q *Quarantine) Release(address netip.Addr, service string, now time.Time) {
	q.set(address, service, now.Add(PropagationDelay))
	// Expired entries are removed once per delay, since that visits all entries.
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

// Wait returns how long an address must not be allocated to a service, zero if it is
// available.
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
