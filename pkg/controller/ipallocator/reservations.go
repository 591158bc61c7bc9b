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
	mu       sync.Mutex
	reserved map[netip.Addr]types.NamespacedName
	// reservedBy are the reserved addresses by service.
	reservedBy map[types.NamespacedName]sets.Set[netip.Addr]
	// held are the ExportedServices that hold an address.
	held       map[netip.Addr]sets.Set[string]
	quarantine clustersetip.Quarantine
	waiting    sets.Set[types.NamespacedName]
	// started is when the caches of this process had synced.
	started time.Time
}

func newReservations() *reservations {
	return &reservations{
		reserved: map[netip.Addr]types.NamespacedName{}, reservedBy: map[types.NamespacedName]sets.Set[netip.Addr]{},
		held: map[netip.Addr]sets.Set[string]{}, waiting: sets.New[types.NamespacedName](),
	}
}

func (r *reservations) start(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = now
}

// hold records an address that an ExportedService of a service holds.
func (r *reservations) hold(address netip.Addr, service types.NamespacedName, exported string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[address] == nil {
		r.held[address] = sets.New[string]()
	}
	r.held[address].Insert(exported)
	r.quarantine.Hold(address, service.String())
}

// unhold records that an ExportedService does not hold an address any longer. It
// quarantines the address, and reports true, if it was the last that did.
func (r *reservations) unhold(address netip.Addr, service types.NamespacedName, exported string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.held[address].Has(exported) {
		return false
	}
	r.held[address].Delete(exported)
	return r.quarantineLocked(address, service, now)
}

// quarantineAddress quarantines an address that an export of this cluster gave up, and
// reports true, unless an ExportedService holds it.
func (r *reservations) quarantineAddress(address netip.Addr, service types.NamespacedName, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.quarantineLocked(address, service, now)
}

func (r *reservations) quarantineLocked(address netip.Addr, service types.NamespacedName, now time.Time) bool {
	if r.held[address].Len() > 0 {
		return false
	}
	delete(r.held, address)
	r.quarantine.Release(address, service.String(), now)
	return true
}

// holders returns the ExportedServices that hold any address.
func (r *reservations) holders() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var holders []string
	for _, exported := range r.held {
		holders = append(holders, exported.UnsortedList()...)
	}
	return holders
}

// reserveLocked reserves an address for an export.
func (r *reservations) reserveLocked(address netip.Addr, key types.NamespacedName) {
	if r.reservedBy[key] == nil {
		r.reservedBy[key] = sets.New[netip.Addr]()
	}
	r.reservedBy[key].Insert(address)
	r.reserved[address] = key
}

// reservedForOther reports whether an address is reserved for another export.
func (r *reservations) reservedForOther(ip string, key types.NamespacedName) bool {
	address, err := netip.ParseAddr(ip)
	r.mu.Lock()
	defer r.mu.Unlock()
	holder, reserved := r.reserved[address]
	return err == nil && reserved && holder != key
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
	for address := range r.reservedBy[key] {
		if !kept.Has(address.String()) {
			delete(r.reserved, address)
			r.reservedBy[key].Delete(address)
			r.quarantine.Release(address, key.String(), now)
			released = true
		}
	}
	if r.reservedBy[key].Len() == 0 {
		delete(r.reservedBy, key)
	}
	return released
}
