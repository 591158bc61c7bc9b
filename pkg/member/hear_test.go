// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// exporting is a world in which b exports web, with two endpoints.
func exporting(t *testing.T, memory *Memory) (*world, *feed) {
	t.Helper()
	w := newWorld(t, memory)
	b := w.join("b")
	must(t, w.replaced(b, services, []any{exportedService("b", "web")}))
	must(t, w.replaced(b, endpointSlices, []any{exportedSlice("b", "web", "web-1")}))
	w.answers(b, own("b", exports(1)))
	if w.exports("web") != "b" || w.news() != "ns/web" {
		t.Fatal("the export of b has not arrived")
	}
	return w, b
}

func TestChangeIsPassedOnOnceAndOnlyIfItIsOne(t *testing.T) {
	w, b := exporting(t, nil)
	same := exportedService("b", "web")
	same.ResourceVersion = "8"
	must(t, w.told(b, same))
	must(t, w.replaced(b, services, []any{same}))
	must(t, w.replaced(b, endpointSlices, []any{exportedSlice("b", "web", "web-1")}))
	if got := w.news(); got != "" {
		t.Errorf("%q was passed on although nothing has changed", got)
	}
	other := exportedService("b", "web")
	other.Spec.Ports[0].Port = 81
	must(t, w.told(b, other))
	if len(w.changed) != 1 || w.news() != "ns/web" {
		t.Error("a change was not passed on, or more than once")
	}
	must(t, w.replaced(b, endpointSlices, []any{exportedSlice("b", "web", "web-1"), exportedSlice("b", "web", "web-2"), exportedSlice("b", "web", "web-3")}))
	if len(w.changed) != 1 {
		t.Errorf("two new slices of one service were passed on %d times", len(w.changed))
	}
	if got := w.Entry("b").Status; got.Exports != 1 || got.Endpoints != 6 {
		t.Errorf("counted %d exports and %d endpoints, want 1 and 6", got.Exports, got.Endpoints)
	}
}

// R15: a deletion is an answer, and is believed.
func TestDeletionIsBelieved(t *testing.T) {
	w, b := exporting(t, nil)
	must(t, w.untold(b, exportedService("b", "web")))
	if w.exports("web") != "" || w.news() != "ns/web" {
		t.Error("a deleted export is still there")
	}
}

func TestShorterListIsBelieved(t *testing.T) {
	w, b := exporting(t, nil)
	must(t, w.told(b, exportedService("b", "api")))
	must(t, w.replaced(b, services, []any{exportedService("b", "api")}))
	if w.exports("web") != "" || w.exports("api") != "b" {
		t.Errorf("web is exported by %q, api by %q", w.exports("web"), w.exports("api"))
	}
}

// Endpoints that arrive before their service are nothing that could be imported.
func TestEndpointsAloneAreNoExport(t *testing.T) {
	w := newWorld(t, nil)
	b := w.join("b")
	must(t, w.told(b, exportedSlice("b", "web", "web-1")))
	if got := w.exports("web"); got != "" {
		t.Errorf("web is exported by %q", got)
	}
	must(t, w.told(b, exportedService("b", "web")))
	if got := w.exports("web"); got != "b" {
		t.Errorf("web is exported by %q, want b", got)
	}
}

func TestEndpointsThatMoveToAnotherServiceAreNotHeldTwice(t *testing.T) {
	w, b := exporting(t, nil)
	must(t, w.told(b, exportedService("b", "api")))
	w.news()
	must(t, w.told(b, exportedSlice("b", "api", "web-1")))
	if got := w.news(); got != "ns/api,ns/web" {
		t.Errorf("%q was passed on, want both services", got)
	}
	for _, export := range w.Exports(serviceFactOf(t, exportedService("b", "web")).service) {
		if len(export.Slices) > 0 {
			t.Error("web still has the endpoints")
		}
	}
	if got := w.Entry("b").Status.Endpoints; got != 2 {
		t.Errorf("%d endpoints are counted, want 2", got)
	}
}

func serviceFactOf(t *testing.T, object any) fact {
	t.Helper()
	f, err := read(object)
	must(t, err)
	return f
}

// What an object was before is not what it is now, also if that cannot be taken.
func TestRejectedObjectShowsInTheEntryAndIsNotHeld(t *testing.T) {
	w, b := exporting(t, nil)
	bad := exportedService("b", "web")
	bad.Spec.Type = "NodePort"
	must(t, w.told(b, bad))
	if w.exports("web") != "" {
		t.Error("the object as it was before is still taken")
	}
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionFalse, "InvalidObjects", `1 objects are not taken, or not whole, the first: exportedservices ns/web.b: spec.type`)
	// The same object, now about something else altogether.
	moved := exportedSlice("b", "web", "web-1")
	moved.Spec.Cluster, moved.Spec.Service = "c", "other"
	must(t, w.told(b, moved))
	if got := w.Entry("b").Status.Endpoints; got != 0 {
		t.Errorf("%d endpoints are still held", got)
	}
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionFalse, "InvalidObjects", "2 objects are not taken")
	must(t, w.told(b, exportedService("b", "web")))
	must(t, w.untold(b, moved))
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionTrue, "Synced", "")
	if w.exports("web") != "b" {
		t.Error("the corrected object is not taken")
	}
}

// R10: nobody can speak for another cluster, and trying does not harm it.
func TestMemberCannotChangeWhatAnotherExports(t *testing.T) {
	w, _ := exporting(t, nil)
	c := w.join("c")
	must(t, w.told(c, exportedService("b", "web", "b")))
	must(t, w.untold(c, exportedService("b", "web")))
	stolen := exportedSlice("c", "web", "web-1")
	stolen.Name = exportedSlice("b", "web", "web-1").Name
	must(t, w.told(c, stolen))
	must(t, w.replaced(c, endpointSlices, []any{stolen}))
	if w.exports("web") != "b" || w.Entry("b").Status.Endpoints != 2 {
		t.Error("the export of b has changed")
	}
	expectCondition(t, w.Entry("c"), clusterset.MemberSynced, metav1.ConditionFalse, "InvalidObjects", "")
}

func TestEmptyAnswerIsBelievedOnlyWhenConfirmed(t *testing.T) {
	unsynced := func(s *clustersetv1alpha1.MemberStatus) { s.Synced = false }
	others := own("b")
	others.Status.State = "Connected"
	for _, test := range []struct {
		name     string
		entries  []clustersetv1alpha1.Member
		believed bool
	}{
		{"synced, none", []clustersetv1alpha1.Member{own("b")}, true},
		{"synced, some", []clustersetv1alpha1.Member{own("b", exports(1))}, false},
		{"not synced", []clustersetv1alpha1.Member{own("b", unsynced)}, false},
		{"no entry at all", nil, false},
		{"the entry of one that is not the member itself", []clustersetv1alpha1.Member{others}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, b := exporting(t, nil)
			// Before it exported anything it said so, which proves nothing now.
			w.answers(b, own("b"))
			must(t, w.replaced(b, services, nil))
			must(t, w.replaced(b, endpointSlices, nil))
			if w.exports("web") != "b" || w.Entry("b").Status.Synced {
				t.Fatal("an empty answer was believed")
			}
			expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionFalse, "EmptyAnswer", "what was known stays")
			if len(b.hurry) == 0 {
				t.Error("the member is not asked at once")
			}
			// The answer to what was asked before the doubts is none.
			w.probed(b, &clustersetv1alpha1.MemberList{Items: []clustersetv1alpha1.Member{own("b")}}, nil)
			if w.exports("web") != "b" {
				t.Fatal("an answer from before the doubts was believed")
			}
			w.news()
			w.answers(b, test.entries...)
			if got := w.exports("web") == ""; got != test.believed {
				t.Errorf("believed: %v, want %v", got, test.believed)
			}
			if got := w.news() == "ns/web"; got != test.believed {
				t.Errorf("passed on: %v, want %v", got, test.believed)
			}
			if w.Entry("b").Status.Synced != test.believed || w.Settled() != test.believed {
				t.Errorf("synced: %v, settled: %v", w.Entry("b").Status.Synced, w.Settled())
			}
		})
	}
}

func TestDoubtEndsWhenTheExportsAreBack(t *testing.T) {
	w, b := exporting(t, nil)
	must(t, w.replaced(b, services, nil))
	must(t, w.told(b, exportedService("b", "web")))
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionTrue, "Synced", "")
	w.answers(b, own("b"))
	if w.exports("web") != "b" {
		t.Error("the export is gone although the member showed it again")
	}
}

// Claims can be empty only by mistake: a cluster cannot lose its id.
func TestMemberWithoutAnIDStaysWhoItWas(t *testing.T) {
	w, b := exporting(t, nil)
	w.claimed(b, &claims{})
	if w.exports("web") != "b" {
		t.Error("a member is out because its claims were not to be seen")
	}
	w.claimed(b, &claims{id: "b"})
	if w.exports("web") != "" {
		t.Error("a member that has left its ClusterSet is still in")
	}
}

func TestReplacedFeedIsNotListenedTo(t *testing.T) {
	w, old := exporting(t, nil)
	now := w.connect(old.peer)
	must(t, w.told(old, exportedService("b", "late")))
	must(t, w.untold(old, exportedService("b", "web")))
	w.claimed(old, &claims{id: "other", clusterSet: "set"})
	w.answers(old, own("b", func(s *clustersetv1alpha1.MemberStatus) { s.ClusterUID = "other" }))
	if w.exports("web") != "b" || w.exports("late") != "" {
		t.Error("a feed that was replaced is still listened to")
	}
	must(t, w.told(now, exportedService("b", "late")))
	if w.exports("late") != "b" {
		t.Error("the present feed is not listened to")
	}
}

func TestReadersAreRecognizedByTheirUserAgent(t *testing.T) {
	for agent, want := range map[string]string{
		"mcs-apiserver cluster/c": "c", "kubectl/v1.36": "", "mcs-apiserver cluster/": "", "mcs-apiserver cluster/c.d": "",
		"mcs-apiserver cluster/" + strings.Repeat("c", 64): "", "x mcs-apiserver cluster/c": "",
	} {
		if id, ok := readerID(agent); ok != (want != "") || ok && id != want {
			t.Errorf("%q is taken for %q, %v", agent, id, ok)
		}
	}
}
