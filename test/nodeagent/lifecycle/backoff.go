// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "time"

const (
	firstDelay = time.Second
	maxDelay   = 30 * time.Second
	// forgiven is how long a run must last for earlier failures to be ignored.
	forgiven = 2 * maxDelay
)

// Backoff computes the delay before a restart: none at first, then longer and longer. The delays of
// the kubelet are ten times as long.
type Backoff struct{ delay time.Duration }

// Next returns the delay after a run of the given duration.
func (b *Backoff) Next(worked time.Duration) time.Duration {
	if worked >= forgiven {
		b.delay = 0
	}
	delay := b.delay
	b.delay = min(max(2*b.delay, firstDelay), maxDelay)
	return delay
}
