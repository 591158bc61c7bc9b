// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// retryRefused is how long the controller does without something that the host
// refused before it tries again.
const retryRefused = 5 * time.Minute

// refusals remembers what the host refused, so that it is not sent again on every
// sync. It is safe for concurrent use.
type refusals struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	// byService are the shared ClusterSet IPs that a derived Service was refused.
	byService map[types.NamespacedName]refusedAddresses
	// distributions are the traffic distributions that the host does not support,
	// with the time until which they are not sent.
	distributions map[string]time.Time
}

type refusedAddresses struct {
	ips     []string
	instead variant
	until   time.Time
}

func newRefusals(clock clock.PassiveClock) *refusals {
	return &refusals{clock: clock, byService: map[types.NamespacedName]refusedAddresses{}, distributions: map[string]time.Time{}}
}

// addresses returns the variant to use instead if the host recently refused these
// addresses to the derived Service of an import.
func (r *refusals) addresses(key types.NamespacedName, ips []string) (instead variant, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	held, ok := r.byService[key]
	if !ok || !r.clock.Now().Before(held.until) || !slices.Equal(held.ips, ips) {
		return variant{}, false
	}
	return held.instead, true
}

func (r *refusals) refuseAddresses(key types.NamespacedName, ips []string, instead variant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byService[key] = refusedAddresses{ips, instead, r.clock.Now().Add(retryRefused)}
}

// forget forgets what was refused to the derived Service of a deleted import.
func (r *refusals) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byService, key)
}

// distribution reports whether the host recently refused a traffic distribution.
func (r *refusals) distribution(value string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clock.Now().Before(r.distributions[value])
}

func (r *refusals) refuseDistribution(value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.distributions[value] = r.clock.Now().Add(retryRefused)
}
