// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// R362: faults are counted by kind.
func TestSummaryCountsFaultsByKind(t *testing.T) {
	fault := func(kind string, end bool) history.Entry {
		return history.Entry{Fault: &history.Fault{Kind: kind, End: end}}
	}
	summary := Summarize([]history.Entry{
		{Invoke: &history.Change{}}, fault("kill", false), fault("cut", false), fault("kill", true), fault("kill", false),
		{Connection: &history.Connection{Error: "refused"}},
	})
	want := "1 changes (0 unknown), 0 events, 0 reads, 0 lookups, 1 connections (1 failed), 3 faults (1 cut, 2 kill)"
	if got := summary.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
