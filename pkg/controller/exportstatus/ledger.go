// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exportstatus

import (
	"net/netip"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// ledger knows the addresses that this process allocated, for as long as the
// exports hold to them, since caches may not show them yet; those that were held
// until a moment ago; and the exports that wait for something.
type ledger struct {
	mu         sync.Mutex
	reserved   map[netip.Addr]types.NamespacedName
	quarantine clustersetip.Quarantine
	waiting    sets.Set[types.NamespacedName]
	// started is when this process began to work.
	started time.Time
}

func newLedger() *ledger {
	return &ledger{reserved: map[netip.Addr]types.NamespacedName{}, waiting: sets.New[types.NamespacedName]()}
}

// start notes that all that is known now has been heard.
func (l *ledger) start(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = now
}

// heldSeen notes an address that a service is seen to hold.
func (l *ledger) heldSeen(address netip.Addr, key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quarantine.Hold(address, key.String())
}

// freeSeen notes an address that nobody is seen to hold any more.
func (l *ledger) freeSeen(address netip.Addr, key types.NamespacedName, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quarantine.Free(address, key.String(), now)
}

// wait remembers that an export has to be looked at when a member changes.
func (l *ledger) wait(key types.NamespacedName, waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if waits {
		l.waiting.Insert(key)
	} else {
		l.waiting.Delete(key)
	}
}

func (l *ledger) all() []types.NamespacedName {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting.UnsortedList()
}

// release gives back what was reserved for an export that holds to something
// else, or is gone, and says whether there was any. It may have been told to
// others all the same.
func (l *ledger) release(key types.NamespacedName, but []string, now time.Time) (released bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := sets.New(but...)
	for address, holder := range l.reserved {
		if holder == key && !kept.Has(address.String()) {
			delete(l.reserved, address)
			l.quarantine.Free(address, key.String(), now)
			released = true
		}
	}
	return released
}
