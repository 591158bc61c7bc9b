// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRulesAreNecessary has the shortest known lists of steps that break a property if a
// rule of the package is left out, when messages are delayed and there is no quarantine
// that makes up for that. Random steps found all but the one for old exports, which is
// rare.
func TestRulesAreNecessary(t *testing.T) {
	for name, test := range map[string]struct {
		setup   setup
		without rules
		steps   []step
		broken  string
	}{
		// c1 adopts the address when c0, unknown to c1, has already allocated it to
		// another service.
		"the older of two services keeps an address": {
			setup{clusters: 2, members: 2, services: 2, length: 32}, rules{noClaims: true},
			[]step{
				{do: export, a: 0, s: 0, wants: true, after: 1}, {do: settle, after: 1},
				{do: unexport, a: 0, s: 0, after: 1}, {do: export, a: 0, s: 1, wants: true, after: 1}, {do: run, a: 0, after: 1},
				{do: export, a: 1, s: 0, wants: true, after: 1}, {do: run, a: 1, after: 1},
			},
			"hold 243.1.0.0",
		},
		// s1 has to wait until s0 is withdrawn from c0, but not from c1. s1 is younger
		// than s0, so it must not get the address that all agreed on for s0.
		"a decision that had to wait is as old as its allocation": {
			setup{clusters: 2, members: 2, services: 2, length: 32}, rules{sinceExport: true},
			[]step{
				{do: export, a: 0, s: 1, wants: true, after: 1}, {do: export, a: 0, s: 0, wants: true, after: 1}, {do: settle, after: 1},
				{do: export, a: 1, s: 0, after: 1}, {do: run, a: 1, after: 1},
				{do: unexport, a: 0, s: 0, after: 1}, {do: run, a: 0, after: 1},
			},
			"hold 243.1.0.0",
		},
		// c2 sees c1 before c1 adopts the address, and c0 after it withdrew. So c2
		// decides for no address, which must not override the agreed one.
		"an export is not older than the membership": {
			setup{clusters: 3, members: 2, services: 1, length: 32}, rules{oldExports: true},
			[]step{
				{do: export, a: 2, s: 0, after: 1}, {do: export, a: 0, s: 0, wants: true, after: 1}, {do: settle, after: 1},
				{do: enter, a: 2, after: 1}, {do: deliver, a: 1, b: 2, after: 1},
				{do: export, a: 1, s: 0, after: 1}, {do: run, a: 1, after: 1}, {do: unexport, a: 0, s: 0, after: 1},
				{do: deliver, a: 0, b: 2, after: 1}, {do: deliver, a: 0, b: 2, after: 1}, {do: run, a: 2, after: 1},
			},
			"all clusters had agreed on",
		},
	} {
		t.Run(name, func(t *testing.T) {
			with, without := test.setup, test.setup
			with.rules = rules{delayed: true, noQuarantine: true, noPause: true}
			without.rules = test.without
			without.rules.delayed, without.rules.noQuarantine, without.rules.noPause = true, true, true
			if _, err := play(with, test.steps); err != nil {
				t.Errorf("with the rule: %v", err)
			}
			if _, err := play(without, test.steps); err == nil || !strings.Contains(err.Error(), test.broken) {
				t.Errorf("without the rule: got %v, want an error with %q", err, test.broken)
			}
		})
	}
}

// TestAddressIsAllocatedTwiceWithoutPropagationDelay shows what no rule can prevent that
// considers only what is known: an address is allocated to another service before it is
// visible that c1 adopted it, because c1 had not seen that it was released. All messages
// take as long as they may.
func TestAddressIsAllocatedTwiceWithoutPropagationDelay(t *testing.T) {
	decided := []step{{do: export, a: 0, s: 0, wants: true}, {do: settle}}
	adopted := []step{{do: export, a: 1, s: 0, wants: true, after: 4}, {do: run, a: 1}}
	for name, test := range map[string]struct {
		without rules
		steps   [][]step
		// disagree is set if a cluster does not believe the decision that c1 adopted: c2
		// has the allocation CIDR of c0, which left.
		disagree bool
	}{
		"a released address is quarantined": {rules{noQuarantine: true}, [][]step{
			decided, {{do: unexport, a: 0, s: 0, after: 1}, {do: export, a: 0, s: 1, wants: true}}, adopted, {{do: run, a: 0, after: 4}},
		}, false},
		"a cluster that just started does not allocate": {rules{noPause: true}, [][]step{
			decided, {{do: unexport, a: 0, s: 0, after: 1}, {do: export, a: 0, s: 1, wants: true}, {do: restart, a: 0}, {do: catchUp, a: 0}}, adopted, {{do: run, a: 0, after: 4}},
		}, false},
		"a cluster that just joined does not allocate": {rules{noPause: true}, [][]step{
			{{do: export, a: 2, s: 1, wants: true}}, decided, {{do: leave, a: 0, after: 1}, {do: enter, a: 2}, {do: catchUp, a: 2}}, adopted, {{do: run, a: 2, after: 4}},
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for rules, want := range map[rules]int{{}: 0, test.without: 1} {
				m, err := play(setup{clusters: 3, members: 2, services: 2, length: 32, rules: rules, disagree: test.disagree}, slices.Concat(test.steps...))
				if err != nil || m.collisions != want {
					t.Errorf("with %+v: %d collisions (%v)", rules, m.collisions, err)
				}
			}
		})
	}
}

// TestUnrecordedDecisionIsLost shows why a decision lives only as long as an export that
// recorded it: c1 never saw it.
func TestUnrecordedDecisionIsLost(t *testing.T) {
	m, err := play(setup{clusters: 2, members: 1, services: 1, length: 32}, []step{
		{do: export, a: 0, s: 0, wants: true, after: 1}, {do: settle, after: 1},
		{do: export, a: 1, s: 0, after: 1}, {do: enter, a: 1, after: 1}, {do: unexport, a: 0, s: 0, after: 1}, {do: catchUp, a: 1, after: 1}, {do: run, a: 1, after: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := m.clusters[1].exports["ns/s0"].Decision; got == nil || len(got.IPs) > 0 || got.DecidedBy != "c1" {
		t.Errorf("got decision %v of c1, want its own for no address", got)
	}
}

// R285: a hostile cluster that says, of every address as soon as it is allocated, that the
// allocating cluster gave it to another service long ago does not keep services from
// getting addresses.
func TestAllocatedAddressIsNotTakenInTheNameOfTheCluster(t *testing.T) {
	const address = "243.1.0.1"
	m, err := play(setup{clusters: 4, members: 4, services: 2, length: 30, rules: rules{hostile: true}, disagree: true}, []step{
		{do: export, a: 0, s: 0, wants: true, after: 20}, {do: run, a: 0}, {do: catchUp, a: 1}, {do: run, a: 1},
		{do: forge, a: 3, s: 1, wants: true, forged: NewDecision("c0", []string{address}, time.Unix(0, 0))},
		{do: catchUp, a: 0}, {do: run, a: 0}, {do: catchUp, a: 1}, {do: run, a: 1},
		{do: export, a: 2, s: 0, wants: true}, {do: export, a: 2, s: 1, wants: true}, {do: settle},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range m.honest() {
		if got := c.served["ns/s0"]; got == nil || !slices.Equal(got.IPs, []string{address}) {
			t.Errorf("%s serves %v, want %s", c.id, got, address)
		}
		if got := c.exports["ns/s1"].Decision; got != nil && slices.Contains(got.IPs, address) {
			t.Errorf("%s adopted the forged decision", c.id)
		}
	}
}
