// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "time"

const (
	firstDelay = time.Second
	maxDelay   = 30 * time.Second
	// forgiven is how long something must have worked for its former failures
	// to count no longer.
	forgiven = 2 * maxDelay
)

// Backoff says how long to wait before something that has ended is tried
// again: not at all at first, then longer and longer. The kubelet does the same
// but waits ten times as long.
type Backoff struct{ delay time.Duration }

// Next is how long to wait after something worked for some time.
func (b *Backoff) Next(worked time.Duration) time.Duration {
	if worked >= forgiven {
		b.delay = 0
	}
	delay := b.delay
	b.delay = min(max(2*b.delay, firstDelay), maxDelay)
	return delay
}
