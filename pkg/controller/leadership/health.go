// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

const (
	// probePeriod is the time between two probes.
	probePeriod = 500 * time.Millisecond
	// tolerance is how long a probe may take, or probes may fail, before a replica is
	// unhealthy: a server that restarts quickly, or is busy for a moment, does not cost
	// the leadership.
	tolerance = 2 * time.Second
	// settling is how long probes must succeed before a replica is healthy again, so
	// that its caches have caught up.
	settling = time.Second
)

// Health is whether this replica is able to lead, according to a probe.
type Health struct {
	probe func(context.Context) error

	mu      sync.Mutex
	healthy bool
	// changed is closed and replaced whenever healthy changes.
	changed chan struct{}
}

// NewHealth returns the health of a replica that is not healthy until Run has probed it.
func NewHealth(probe func(context.Context) error) *Health {
	return &Health{probe: probe, changed: make(chan struct{})}
}

// Run probes until the context is canceled.
func (h *Health) Run(ctx context.Context) error {
	logger := klog.LoggerWithName(klog.FromContext(ctx), "health")
	ticker := time.NewTicker(probePeriod)
	defer ticker.Stop()
	var record probes
	for {
		begun := time.Now()
		probing, cancel := context.WithTimeout(ctx, tolerance)
		err := h.probe(probing)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		before := record.healthy
		if record = record.next(begun, time.Now(), err == nil); record.healthy != before {
			h.set(record.healthy)
			logger.Info("Ability of this replica to lead changed", "able", record.healthy, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (h *Health) set(healthy bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.healthy = healthy
	close(h.changed)
	h.changed = make(chan struct{})
}

// Healthy reports whether the replica is able to lead.
func (h *Health) Healthy() bool {
	healthy, _ := h.get()
	return healthy
}

func (h *Health) get() (healthy bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.healthy, h.changed
}

// Await waits until the replica is healthy or the context is canceled, and returns a
// context that is canceled when the replica becomes unhealthy.
func (h *Health) Await(ctx context.Context) (context.Context, context.CancelFunc) {
	able, cancel := context.WithCancel(ctx)
	healthy, changed := h.get()
	for !healthy {
		select {
		case <-changed:
			healthy, changed = h.get()
		case <-ctx.Done():
			return able, cancel
		}
	}
	go func() {
		select {
		case <-changed:
			cancel()
		case <-able.Done():
		}
	}()
	return able, cancel
}

// probes summarizes the results of all probes.
type probes struct {
	healthy bool
	// succeeding and failing are since when all probes succeeded, or failed; zero if
	// the last one did not.
	succeeding, failing time.Time
}

// next returns the summary after another probe. The health changes only when probes have
// had the same result for some time.
func (p probes) next(begun, ended time.Time, success bool) probes {
	if success {
		p.failing = time.Time{}
		if p.succeeding.IsZero() {
			p.succeeding = ended
		}
		p.healthy = p.healthy || ended.Sub(p.succeeding) >= settling
		return p
	}
	p.succeeding = time.Time{}
	if p.failing.IsZero() {
		p.failing = begun
	}
	p.healthy = p.healthy && ended.Sub(p.failing) < tolerance
	return p
}
