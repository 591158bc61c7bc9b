// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
)

// exporting returns a Set in which b exports web, with two endpoints.
func exporting(t *testing.T, recorded *host) (*fixture, *receiver) {
	t.Helper()
	w := newFixture(t, recorded)
	b := w.join("b")
	w.replace(t, b, exports.Services, exported("b", "web"))
	w.replace(t, b, exports.EndpointSlices, exportedSlice("b", "web", "web-1"))
	w.probe(b, ownEntry("b", withExports(1)))
	if w.exporters("web") != "b" || w.notified() != "ns/web" {
		t.Fatal("the export of b is missing")
	}
	return w, b
}

func TestOnlyChangesAreReportedAndOnlyOnce(t *testing.T) {
	w, b := exporting(t, nil)
	same := exported("b", "web")
	same.ResourceVersion = "8"
	w.upsert(t, b, same)
	w.replace(t, b, exports.Services, same)
	w.replace(t, b, exports.EndpointSlices, exportedSlice("b", "web", "web-1"))
	if got := w.notified(); got != "" {
		t.Errorf("%q was reported although nothing changed", got)
	}
	other := exported("b", "web")
	other.Spec.Ports[0].Port = 81
	w.upsert(t, b, other)
	if len(w.changed) != 1 || w.notified() != "ns/web" {
		t.Error("a change was not reported exactly once")
	}
	w.replace(t, b, exports.EndpointSlices, exportedSlice("b", "web", "web-1"), exportedSlice("b", "web", "web-2"), exportedSlice("b", "web", "web-3"))
	if len(w.changed) != 1 {
		t.Errorf("two new slices of one Service were reported %d times", len(w.changed))
	}
	if got := w.Entry("b").Status; got.Exports != 1 || got.Endpoints != 6 {
		t.Errorf("counted %d exports and %d endpoints, want 1 and 6", got.Exports, got.Endpoints)
	}
}

// R15: a deleted export is removed without a confirmation.
func TestDeletedExportIsRemoved(t *testing.T) {
	w, b := exporting(t, nil)
	w.remove(t, b, exported("b", "web"))
	if w.exporters("web") != "" || w.notified() != "ns/web" {
		t.Error("a deleted export still exists")
	}
}

func TestShorterListNeedsNoConfirmation(t *testing.T) {
	w, b := exporting(t, nil)
	w.upsert(t, b, exported("b", "api"))
	w.replace(t, b, exports.Services, exported("b", "api"))
	if w.exporters("web") != "" || w.exporters("api") != "b" {
		t.Errorf("web is exported by %q, api by %q", w.exporters("web"), w.exporters("api"))
	}
}

// Endpoints may arrive before their Service.
func TestEndpointsWithoutAServiceAreNotExported(t *testing.T) {
	w := newFixture(t, nil)
	b := w.join("b")
	w.upsert(t, b, exportedSlice("b", "web", "web-1"))
	if got := w.exporters("web"); got != "" {
		t.Errorf("web is exported by %q", got)
	}
	w.upsert(t, b, exported("b", "web"))
	if got := w.exporters("web"); got != "b" {
		t.Errorf("web is exported by %q, want b", got)
	}
}

func TestEndpointsCanMoveToAnotherService(t *testing.T) {
	w, b := exporting(t, nil)
	w.upsert(t, b, exported("b", "api"))
	w.notified()
	w.upsert(t, b, exportedSlice("b", "api", "web-1"))
	if got := w.notified(); got != "ns/api,ns/web" {
		t.Errorf("%q was reported, want both Services", got)
	}
	for _, export := range w.Exports(types.NamespacedName{Namespace: "ns", Name: "web"}) {
		if len(export.Slices) > 0 {
			t.Error("web still has the endpoints")
		}
	}
	if got := w.Entry("b").Status.Endpoints; got != 2 {
		t.Errorf("%d endpoints are counted, want 2", got)
	}
}

// The previous state of an object that is rejected now is outdated.
func TestRejectedObjectIsReportedAndRemoved(t *testing.T) {
	w, b := exporting(t, nil)
	bad := exported("b", "web")
	bad.Spec.Type = "NodePort"
	w.upsert(t, b, bad)
	if w.exporters("web") != "" {
		t.Error("the previous state of the object is still held")
	}
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionFalse, "InvalidObjects", `1 objects are rejected or admitted only in part (Invalid: 1), the first: exportedservices ns/web.b: spec.type`)
	// The same object, now of another cluster and Service.
	moved := exportedSlice("b", "web", "web-1")
	moved.Spec.Cluster, moved.Spec.Service = "c", "other"
	w.upsert(t, b, moved)
	if got := w.Entry("b").Status.Endpoints; got != 0 {
		t.Errorf("%d endpoints are still held", got)
	}
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionFalse, "InvalidObjects", "2 objects are rejected")
	w.upsert(t, b, exported("b", "web"))
	w.remove(t, b, moved)
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionTrue, "Synced", "")
	if w.exporters("web") != "b" {
		t.Error("the corrected object is not held")
	}
}

// R10: a member cannot change the exports of another.
func TestMemberCannotChangeExportsOfAnother(t *testing.T) {
	w, _ := exporting(t, nil)
	c := w.join("c")
	w.upsert(t, c, exported("b", "web", "b"))
	w.remove(t, c, exported("b", "web"))
	stolen := exportedSlice("c", "web", "web-1")
	stolen.Name = exportedSlice("b", "web", "web-1").Name
	w.upsert(t, c, stolen)
	w.replace(t, c, exports.EndpointSlices, stolen)
	if w.exporters("web") != "b" || w.Entry("b").Status.Endpoints != 2 {
		t.Error("the export of b changed")
	}
	expectCondition(t, w.Entry("c"), clusterset.MemberSynced, metav1.ConditionFalse, "InvalidObjects", "")
}

func TestEmptyListNeedsConfirmation(t *testing.T) {
	unsynced := func(s *clustersetv1alpha1.MemberStatus) { s.Synced = false }
	others := ownEntry("b")
	others.Status.State = "Connected"
	for _, test := range []struct {
		name      string
		entries   []clustersetv1alpha1.Member
		confirmed bool
	}{
		{"synced, none", []clustersetv1alpha1.Member{ownEntry("b")}, true},
		{"synced, some", []clustersetv1alpha1.Member{ownEntry("b", withExports(1))}, false},
		{"not synced", []clustersetv1alpha1.Member{ownEntry("b", unsynced)}, false},
		{"no entry", nil, false},
		{"entry of another cluster", []clustersetv1alpha1.Member{others}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, b := exporting(t, nil)
			// An entry from before the first export confirms nothing.
			w.probe(b, ownEntry("b"))
			w.replace(t, b, exports.Services)
			w.replace(t, b, exports.EndpointSlices)
			if w.exporters("web") != "b" || w.Entry("b").Status.Synced {
				t.Fatal("an empty list removed an export")
			}
			expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionFalse, "UnconfirmedRemoval", "objects that were not listed are kept")
			if !b.feed.ProbePending() {
				t.Error("the member is not probed at once")
			}
			// A probe that began before the list confirms nothing.
			w.probed(b, ownEntry("b"))
			if w.exporters("web") != "b" {
				t.Fatal("a probe that began before the list removed an export")
			}
			w.notified()
			w.probe(b, test.entries...)
			if got := w.exporters("web") == ""; got != test.confirmed {
				t.Errorf("removed: %v, want %v", got, test.confirmed)
			}
			if got := w.notified() == "ns/web"; got != test.confirmed {
				t.Errorf("reported: %v, want %v", got, test.confirmed)
			}
			if w.Entry("b").Status.Synced != test.confirmed || w.Settled() != test.confirmed {
				t.Errorf("synced: %v, settled: %v", w.Entry("b").Status.Synced, w.Settled())
			}
		})
	}
}

func TestExportThatIsListedAgainNeedsNoConfirmation(t *testing.T) {
	w, b := exporting(t, nil)
	w.replace(t, b, exports.Services)
	w.upsert(t, b, exported("b", "web"))
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionTrue, "Synced", "")
	w.probe(b, ownEntry("b"))
	if w.exporters("web") != "b" {
		t.Error("the export was removed although the member reported it again")
	}
}

// A cluster cannot lose its ID: claims without one are incomplete.
func TestClaimsWithoutAnIDAreIgnored(t *testing.T) {
	w, b := exporting(t, nil)
	b.ClaimsRead(identity.Claims{})
	if w.exporters("web") != "b" {
		t.Error("a member is refused because its claims are incomplete")
	}
	b.ClaimsRead(identity.Claims{ID: "b"})
	if w.exporters("web") != "" {
		t.Error("a member that left its ClusterSet is still accepted")
	}
}

func TestReplacedFeedIsIgnored(t *testing.T) {
	w, old := exporting(t, nil)
	now := w.connect(old.peer)
	w.upsert(t, old, exported("b", "late"))
	w.remove(t, old, exported("b", "web"))
	old.ClaimsRead(identity.Claims{ID: "other", ClusterSet: "set"})
	w.probe(old, ownEntry("b", func(s *clustersetv1alpha1.MemberStatus) { s.ClusterUID = "other" }))
	if w.exporters("web") != "b" || w.exporters("late") != "" {
		t.Error("a feed that was replaced is still used")
	}
	w.upsert(t, now, exported("b", "late"))
	if w.exporters("late") != "b" {
		t.Error("the present feed is not used")
	}
}
