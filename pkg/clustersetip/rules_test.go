// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"strings"
	"testing"
)

// TestRulesAreNeeded has the shortest lists of steps known that break a
// property if a rule of the package is left out. The random steps have found
// all but the one for old exports, which is rare.
func TestRulesAreNeeded(t *testing.T) {
	for name, test := range map[string]struct {
		setup   setup
		without rules
		steps   []step
		broken  string
	}{
		// c1 adopts the address at a time at which c0, unknown to it, has already
		// given it to another service.
		"the older of two services keeps an address": {
			setup{clusters: 2, members: 2, services: 2, length: 32}, rules{noClaims: true},
			[]step{
				{do: export, a: 0, s: 0, wants: true}, {do: settle},
				{do: unexport, a: 0, s: 0}, {do: export, a: 0, s: 1, wants: true}, {do: run, a: 0},
				{do: export, a: 1, s: 0, wants: true}, {do: run, a: 1},
			},
			"hold 243.1.0.0",
		},
		// s1 has to wait until s0 has gone from c0, but not from c1. It is younger
		// than s0, so it must not get what all have agreed on for s0.
		"a decision is as old as its allocation": {
			setup{clusters: 2, members: 2, services: 2, length: 32}, rules{sinceExport: true},
			[]step{
				{do: export, a: 0, s: 1, wants: true}, {do: export, a: 0, s: 0, wants: true}, {do: settle},
				{do: export, a: 1, s: 0}, {do: run, a: 1},
				{do: unexport, a: 0, s: 0}, {do: run, a: 0},
			},
			"which all had agreed on",
		},
		// c2 hears c1 before that adopts the address, and c0 after that has gone. So
		// it decides for none, which must not stand against the agreed address.
		"an export is not older than the membership": {
			setup{clusters: 3, members: 2, services: 1, length: 32}, rules{oldExports: true},
			[]step{
				{do: export, a: 2, s: 0}, {do: export, a: 0, s: 0, wants: true}, {do: settle},
				{do: enter, a: 2}, {do: deliver, a: 1, b: 2},
				{do: export, a: 1, s: 0}, {do: run, a: 1}, {do: unexport, a: 0, s: 0},
				{do: deliver, a: 0, b: 2}, {do: deliver, a: 0, b: 2}, {do: run, a: 2},
			},
			"which all had agreed on",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := play(test.setup, test.steps); err != nil {
				t.Errorf("with the rule: %v", err)
			}
			without := test.setup
			without.rules = test.without
			if _, err := play(without, test.steps); err == nil || !strings.Contains(err.Error(), test.broken) {
				t.Errorf("without the rule: %v, which does not say %q", err, test.broken)
			}
		})
	}
}

// TestAddressIsGivenTwiceOnlyWithoutQuarantine shows what no rule can prevent
// that only looks at what is known: c0 gives an address to another service
// before it hears that c1 has adopted it. It gets another one when it does.
func TestAddressIsGivenTwiceOnlyWithoutQuarantine(t *testing.T) {
	steps := []step{
		{do: export, a: 0, s: 0, wants: true}, {do: settle},
		{do: export, a: 1, s: 0, wants: true}, {do: run, a: 1},
		{do: unexport, a: 0, s: 0}, {do: export, a: 0, s: 1, wants: true}, {do: run, a: 0},
	}
	for quarantine, want := range map[bool]int{false: 1, true: 0} {
		m, err := play(setup{clusters: 2, members: 2, services: 2, length: 32, rules: rules{quarantine: quarantine}}, steps)
		if err != nil || m.collisions != want {
			t.Errorf("with quarantine %v: %d collisions (%v)", quarantine, m.collisions, err)
		}
	}
}

// TestExportThatHasNotSeenADecisionDoesNotKeepIt shows why a decision lives
// only as long as an export that holds to it: c1 never heard of it.
func TestExportThatHasNotSeenADecisionDoesNotKeepIt(t *testing.T) {
	m, err := play(setup{clusters: 2, members: 1, services: 1, length: 32}, []step{
		{do: export, a: 0, s: 0, wants: true}, {do: settle},
		{do: export, a: 1, s: 0}, {do: enter, a: 1}, {do: unexport, a: 0, s: 0}, {do: catchUp, a: 1}, {do: run, a: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.clusters[1].exports["ns/s0"].Decision; got == nil || len(got.IPs) > 0 || got.DecidedBy != "c1" {
		t.Errorf("c1 holds to %v", got)
	}
}
