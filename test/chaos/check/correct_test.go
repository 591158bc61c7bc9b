// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/simulate"
)

// violationsOf checks a history.
func violationsOf(t *testing.T, entries []history.Entry) []Violation {
	t.Helper()
	found, err := Check(entries)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// R322: histories in which all promises are kept have no violation, whatever fails meanwhile.
func TestCorrectHistoriesHaveNoViolations(t *testing.T) {
	for seed := range uint64(12) {
		for _, faults := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed %d, faults %t", seed, faults), func(t *testing.T) {
				entries := simulate.History(simulate.Options{Seed: seed, Duration: 4 * time.Minute, Faults: faults})
				for _, violation := range violationsOf(t, entries) {
					t.Error(Describe(violation, entries))
				}
			})
		}
	}
}

func TestHistoryWithoutRunIsRefused(t *testing.T) {
	for _, entries := range [][]history.Entry{nil, {{Lookup: &history.Lookup{}}}} {
		if _, err := Check(entries); err == nil {
			t.Errorf("%v is accepted", entries)
		}
	}
}

// A history that ends early, as that of a run that was interrupted, has no violation either.
func TestInterruptedHistoryHasNoViolations(t *testing.T) {
	entries := simulate.History(simulate.Options{Seed: 1, Duration: 2 * time.Minute, Faults: true})
	for length := 1; length < len(entries); length += len(entries)/7 + 1 {
		for _, violation := range violationsOf(t, entries[:length]) {
			t.Error(Describe(violation, entries))
		}
	}
}
