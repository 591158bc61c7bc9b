// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package probes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestCounter(t *testing.T) {
	for name, test := range map[string]struct {
		successes, failures int32
		attempts            string // + succeeds, - fails
		changes             string // the attempts that changed the result, and the new result
	}{
		"one success is enough":         {1, 3, "+++", "+  "},
		"three failures in a row":       {1, 3, "+--+---", "+     -"},
		"failures at first":             {1, 3, "---+", "  -+"},
		"two successes":                 {2, 1, "+-++-", " - +-"},
		"no result below the threshold": {1, 3, "--", "  "},
		"thresholds that are not given": {0, 0, "+-", "+-"},
	} {
		counter := newCounter(&corev1.Probe{SuccessThreshold: test.successes, FailureThreshold: test.failures})
		got := ""
		for _, attempt := range test.attempts {
			change := " "
			if counter.observe(attempt == '+') {
				change = string(attempt)
			}
			got += change
		}
		if got != test.changes {
			t.Errorf("%s: got %q, want %q", name, got, test.changes)
		}
	}
}
