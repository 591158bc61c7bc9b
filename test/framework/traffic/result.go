// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxErrors is how many errors are kept.
const maxErrors = 20

// Result is what became of the attempts to call a host.
type Result struct {
	// Attempts is the number of attempts that have ended, and Failed how many of them failed.
	Attempts, Failed int
	// From is how many answers came from where: the first part of the name of the server.
	From map[string]int
	// Slowest is how long the slowest attempt took that succeeded, SlowestAt when it began.
	Slowest   time.Duration
	SlowestAt time.Time
	// Pending is how many attempts have not ended.
	Pending int
	// Errors are the first errors, with the times of the attempts.
	Errors []string
}

func (r Result) String() string {
	var from []string
	for _, name := range slices.Sorted(maps.Keys(r.From)) {
		from = append(from, fmt.Sprintf("%d from %s", r.From[name], name))
	}
	return fmt.Sprintf("%d attempts, %d failed, slowest %s at %s, answers: %s",
		r.Attempts, r.Failed, r.Slowest.Round(time.Millisecond), r.SlowestAt.UTC().Format(time.TimeOnly), strings.Join(from, ", "))
}

// tally counts attempts.
type tally struct {
	mu     sync.Mutex
	counts Result
}

func (t *tally) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Pending++
}

func (t *tally) end(begun, ended time.Time, answer string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts.Pending--
	t.counts.Attempts++
	if err != nil {
		if t.counts.Failed++; len(t.counts.Errors) < maxErrors {
			t.counts.Errors = append(t.counts.Errors, fmt.Sprintf("%s, after %s: %v", begun.UTC().Format("15:04:05.000"), ended.Sub(begun).Round(time.Millisecond), err))
		}
		return
	}
	if took := ended.Sub(begun); took > t.counts.Slowest {
		t.counts.Slowest, t.counts.SlowestAt = took, begun
	}
	if t.counts.From == nil {
		t.counts.From = map[string]int{}
	}
	t.counts.From[serverOf(answer)]++
}

func (t *tally) result() Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	result := t.counts
	result.From, result.Errors = maps.Clone(result.From), slices.Clone(result.Errors)
	return result
}
