// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import corev1 "k8s.io/api/core/v1"

// counter derives a result from consecutive successes or failures.
type counter struct {
	successes, failures int32 // thresholds
	last                bool
	row                 int32
	decided, result     bool
}

func newCounter(probe *corev1.Probe) *counter {
	return &counter{successes: max(probe.SuccessThreshold, 1), failures: max(probe.FailureThreshold, 1)}
}

// observe counts an attempt and reports whether the result has changed.
func (c *counter) observe(ok bool) (changed bool) {
	if c.row > 0 && ok == c.last {
		c.row++
	} else {
		c.last, c.row = ok, 1
	}
	needed := c.failures
	if ok {
		needed = c.successes
	}
	if c.row < needed || c.decided && c.result == ok {
		return false
	}
	c.decided, c.result = true, ok
	return true
}
