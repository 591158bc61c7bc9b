// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ipallocator

import (
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// reservations are the addresses that must not be allocated although the caches
// do not show them as held: those that this process allocated, which the caches
// may not show yet, and those that were released recently. It also keeps the
// exports that wait for an address or a member.
type reservations struct {
	mu         sync.Mutex
	reserved   map[netip.Addr]types.NamespacedName
	quarantine clustersetip.Quarantine
	waiting    sets.Set[types.NamespacedName]
	// started is when the caches of this process had synced.
	started time.Time
}

func newReservations() *reservations {
	return &reservations{reserved: map[netip.Addr]types.NamespacedName{}, waiting: sets.New[types.NamespacedName]()}
}

func (r *reservations) start(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = now
}

// hold records an address that an export of a service holds.
func (r *reservations) hold(address netip.Addr, service types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quarantine.Hold(address, service.String())
}

// quarantineAddress records an address that no export holds any longer.
func (r *reservations) quarantineAddress(address netip.Addr, service types.NamespacedName, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quarantine.Release(address, service.String(), now)
}

// setWaiting records whether an export waits, and thus has to be reconciled when
// a member changes or an address is released.
func (r *reservations) setWaiting(key types.NamespacedName, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if waits {
		r.waiting.Insert(key)
	} else {
		r.waiting.Delete(key)
	}
}

func (r *reservations) allWaiting() []types.NamespacedName {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting.UnsortedList()
}

// release releases and quarantines the addresses reserved for an export, other
// than those to keep, and reports whether there were any. The released addresses
// may have reached other clusters already.
func (r *reservations) release(key types.NamespacedName, keep []string, now time.Time) (released bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := sets.New(keep...)
	for address, holder := range r.reserved {
		if holder == key && !kept.Has(address.String()) {
			delete(r.reserved, address)
			r.quarantine.Release(address, key.String(), now)
			released = true
		}
	}
	return released
}
