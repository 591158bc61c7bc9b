// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"sync/atomic"
	"testing"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// R279: however many members report something else with every probe, all of them are
// evaluated, and their entries notified, once per interval. After a pause, that happens
// at once.
func TestEvaluationsOfManyMembersAreCoalesced(t *testing.T) {
	const members = 50
	w := newFixture(t, nil)
	var notified atomic.Int64
	w.config.MemberChanged = func(string) { notified.Add(1) }
	var receivers []*receiver
	for i := range members {
		receivers = append(receivers, w.join(fmt.Sprintf("m%d", i)))
	}
	w.locked(func() { w.base = t.Context() })() // from now on it runs
	t.Cleanup(w.running.Wait)
	report := func(round int) {
		for i, r := range receivers {
			w.probe(r, ownEntry(r.peer.id, claiming(fmt.Sprintf("243.%d.%d.0/24", i, round))))
		}
	}
	evaluations := func() int {
		w.mu.RLock()
		defer w.mu.RUnlock()
		return w.evaluations
	}
	shown := func(id string) string {
		return fmt.Sprint(w.Entry(id).Status.ClusterSetIPCIDRs)
	}
	for round := range 5 {
		w.clock.Step(evaluationInterval)
		before, told := evaluations(), notified.Load()
		report(2 * round)
		if got := shown("m0"); got != fmt.Sprintf("[243.0.%d.0/24]", 2*round) {
			t.Fatalf("m0 is shown with %s: the first change after a pause is not evaluated at once", got)
		}
		report(2*round + 1)
		if done := evaluations() - before; done != 1 {
			t.Fatalf("all members were evaluated %d times for %d reports", done, 2*members)
		}
		eventually(t, "the rest is awaited", w.clock.HasWaiters)
		w.clock.Step(evaluationInterval)
		eventually(t, "the rest is evaluated", func() bool { return evaluations() == before+2 })
		for i := range members {
			if got, want := shown(fmt.Sprintf("m%d", i)), fmt.Sprintf("[243.%d.%d.0/24]", i, 2*round+1); got != want {
				t.Errorf("m%d is shown with %s, want %s", i, got, want)
			}
		}
		eventually(t, "entries are notified", func() bool { return notified.Load()-told >= members })
		if count := notified.Load() - told; count > 3*members {
			t.Errorf("%d entries were notified in two evaluations of %d", count, members)
		}
	}
}

// R279: what this cluster itself decides takes effect at once.
func TestChangesOfThisClusterAreNotDelayed(t *testing.T) {
	w := newFixture(t, nil)
	b := w.join("b")
	w.locked(func() { w.base = t.Context() })()
	t.Cleanup(w.running.Wait)
	w.probe(b, ownEntry("b", func(s *clustersetv1alpha1.MemberStatus) { s.ClusterSetIPCIDRs = []string{"243.1.0.0/16"} }))
	before := w.evaluations
	other := self
	other.ClusterSet = "another"
	w.SetIdentity(other)
	if w.evaluations != before+1 || w.evaluation.Pending() || w.Entry("b").Status.State != "Refused" {
		t.Errorf("evaluated %d times, b is %s", w.evaluations-before, w.Entry("b").Status.State)
	}
}

// R279: what was read is not settled, nor shown, before it is in use. R288: controllers never
// see allocation CIDRs that are refused without the condition that says so.
func TestPendingEvaluationIsNotSettled(t *testing.T) {
	w, b := exporting(t, nil)
	w.locked(func() { w.base = t.Context() })()
	t.Cleanup(w.running.Wait)
	if !w.Settled() {
		t.Fatal("not settled")
	}
	w.probe(b, ownEntry("b", withExports(1), claiming("243.1.0.0/16")))
	if w.Settled() {
		t.Error("settled although what was read is not in use")
	}
	w.upsert(t, b, exported("b", "api")) // the entry counts it
	if got := w.Entry("b").Status; len(got.ClusterSetIPCIDRs) > 0 || got.Exports != 2 {
		t.Errorf("b is shown with %v and %d exports before it is known whether the CIDRs are refused", got.ClusterSetIPCIDRs, got.Exports)
	}
	eventually(t, "the evaluation is awaited", w.clock.HasWaiters)
	w.clock.Step(evaluationInterval)
	eventually(t, "settled", w.Settled)
	if got := w.Entry("b").Status.ClusterSetIPCIDRs; len(got) != 1 {
		t.Errorf("b is shown with %v", got)
	}
}
