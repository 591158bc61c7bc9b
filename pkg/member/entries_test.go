// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/view"
)

// withCIDRs returns an entry with allocation CIDRs and ClusterSet IP ranges.
func withCIDRs(count int) func(*clustersetv1alpha1.MemberStatus) {
	return func(s *clustersetv1alpha1.MemberStatus) {
		for i := range count {
			s.ClusterSetIPCIDRs = append(s.ClusterSetIPCIDRs, fmt.Sprintf("243.%d.%d.%d/32", i>>16, i>>8&0xff, i&0xff))
		}
		s.ClusterSetIPRanges = s.ClusterSetIPCIDRs
	}
}

// R280: what a member lists without limit is refused and reported, and the rest is used.
func TestUnlimitedListsOfAMemberAreRefused(t *testing.T) {
	w, b := exporting(t, nil)
	w.probe(b, ownEntry("b", withExports(1), withCIDRs(16)))
	if status := w.Entry("b").Status; len(status.ClusterSetIPCIDRs) != 16 || len(status.ClusterSetIPRanges) != 16 {
		t.Errorf("the entry is %+v", status)
	}
	w.probe(b, ownEntry("b", withExports(1), withCIDRs(100_000)))
	if status := w.Entry("b").Status; len(status.ClusterSetIPCIDRs) > 0 || len(status.ClusterSetIPRanges) > 0 || status.State != clusterset.MemberConnected || w.exporters("web") != "b" {
		t.Errorf("the entry is %+v", status)
	}
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionFalse, clusterset.ReasonInvalidObjects,
		`1 objects are rejected or admitted only in part (InvalidMember: 1), the first: Member "b": status.clusterSetIPCIDRs has 100000 items, at most 16`)
	w.measures(t, map[string]float64{"member_refused_objects b InvalidMember": 1})
	w.probe(b, ownEntry("b", withExports(1)))
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionTrue, "Synced", "")
}

// R280: the cost of an object, with the lock of all members held, does not depend on how
// much the member lists.
func TestCostOfAnObjectIsIndependentOfTheEntry(t *testing.T) {
	cost := func(change func(*clustersetv1alpha1.MemberStatus)) uint64 {
		w, b := exporting(t, nil)
		w.probe(b, ownEntry("b", withExports(1), change))
		const objects = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range objects {
			b.ReadFailed(exports.Services, nil)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / objects
	}
	few := cost(withCIDRs(1))
	for name, change := range map[string]func(*clustersetv1alpha1.MemberStatus){
		"CIDRs": withCIDRs(100_000),
		"peers": func(s *clustersetv1alpha1.MemberStatus) {
			s.Peers = slices.Repeat([]string{strings.Repeat("x", 200)}, 60_000)
		},
	} {
		if many := cost(change); many > few+4*view.MaxMessage {
			t.Errorf("an object allocates %d bytes, and %d with many %s", few, many, name)
		}
	}
}

// R280: values of claims may be long.
func TestLongClaimsAreShownInPart(t *testing.T) {
	w := newFixture(t, nil)
	b := w.add("b")
	long := strings.Repeat("\n", 60<<10)
	b.ClaimsRead(identity.Claims{ID: "b", ClusterSet: long})
	entry := w.Entry("b")
	expectCondition(t, entry, clusterset.MemberAccepted, metav1.ConditionFalse, "WrongClusterSet", "both need the same value")
	if shown := entry.Status.ClusterSet; len(shown) > 1000 || strings.Contains(shown, "\n") {
		t.Errorf("%d bytes are shown: %.100q", len(shown), shown)
	}
	b.ClaimsRead(identity.Claims{ID: long, ClusterSet: "set"})
	expectCondition(t, w.Entry("b"), clusterset.MemberAccepted, metav1.ConditionFalse, "WrongClusterID", "correct cluster-id in the Secret")
}

// Claims that did not change are not evaluated again.
func TestRepeatedClaimsAreNotEvaluated(t *testing.T) {
	w, b := exporting(t, nil)
	before := w.evaluations
	for range 10 {
		b.ClaimsRead(identityOf("b"))
	}
	if w.evaluations != before {
		t.Errorf("all peers were evaluated %d times", w.evaluations-before)
	}
}
