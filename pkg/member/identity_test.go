// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

func withUID(uid types.UID) func(*clustersetv1alpha1.MemberStatus) {
	return func(s *clustersetv1alpha1.MemberStatus) { s.ClusterUID = uid }
}

// R102: another cluster under the same id inherits nothing.
func TestSuccessorInheritsNothing(t *testing.T) {
	memory := newMemory(t)
	w, b := exporting(t, memory)
	w.memory.flush(t.Context())
	w.answers(b, own("b", withUID("uid-successor")))
	if w.exports("web") != "" || w.news() != "ns/web" {
		t.Error("the exports of the old cluster are taken for those of the new one")
	}
	if got := w.Entry("b").Status; got.State != clusterset.MemberConnecting || got.ClusterUID != "uid-successor" {
		t.Errorf("the new cluster is %s before it has said who it is", got.State)
	}
	must(t, w.told(b, exportedService("b", "late")))
	now := w.connect(b.peer)
	w.claimed(now, &claims{id: "b", clusterSet: "set", idClaimedAt: epoch})
	must(t, w.replaced(now, services, []any{exportedService("b", "api")}))
	w.answers(now, own("b", withUID("uid-successor")))
	if w.exports("api") != "b" || w.exports("late") != "" {
		t.Errorf("api is exported by %q, late by %q", w.exports("api"), w.exports("late"))
	}
	w.memory.flush(t.Context())
	remembered := loaded(t, memory)["b"]
	if remembered.UID != "uid-successor" || names(remembered) != "api.b" {
		t.Errorf("remembered of %s: %s", remembered.UID, names(remembered))
	}
}

func TestMemberThatDoesNotSayItsUIDIsNoSuccessor(t *testing.T) {
	w, b := exporting(t, nil)
	w.answers(b, own("b", withUID("")))
	if w.exports("web") != "b" || w.Entry("b").Status.ClusterUID != "uid-b" {
		t.Error("an entry without a UID was taken for another cluster's")
	}
}

// The UID becomes part of a key in etcd.
func TestUIDThatIsNoneIsAnError(t *testing.T) {
	for _, uid := range []types.UID{"../c/uid-c", "a/b", "A", "..", "."} {
		w, b := exporting(t, nil)
		w.answers(b, own("b", withUID(uid)))
		if w.exports("web") != "b" || b.peer.probeError == nil || b.peer.uid != "uid-b" {
			t.Errorf("UID %q is taken: %v", uid, b.peer.probeError)
		}
	}
}

// R6, R110: whoever leaves the ClusterSet is out at once, and is not brought
// back by the memory.
func TestMemberThatLeavesIsForgotten(t *testing.T) {
	for name, told := range map[string]claims{
		"leaves": {id: "b"}, "joins another ClusterSet": {id: "b", clusterSet: "other"}, "is renamed": {id: "c", clusterSet: "set"},
	} {
		t.Run(name, func(t *testing.T) {
			memory := newMemory(t)
			w, b := exporting(t, memory)
			w.memory.flush(t.Context())
			w.claimed(b, &told)
			if w.exports("web") != "" || w.news() != "ns/web" || w.Entry("b").Status.State != clusterset.MemberRefused {
				t.Error("it is still a member")
			}
			w.memory.flush(t.Context())
			if got := loaded(t, memory); len(got) != 0 {
				t.Errorf("it is remembered: %v", got)
			}
			w.claimed(b, &claims{id: "b", clusterSet: "set"})
			w.memory.flush(t.Context())
			if w.exports("web") != "b" || names(loaded(t, memory)["b"]) != "web-1.b,web.b" {
				t.Error("it is not back after it has joined again")
			}
		})
	}
}

// R110: without a ClusterSet nothing is imported; coming back brings it back.
func TestNothingIsImportedOutsideAClusterSet(t *testing.T) {
	memory := newMemory(t)
	w, b := exporting(t, memory)
	outside := me
	outside.ClusterSet = ""
	w.SetIdentity(outside)
	if w.exports("web") != "" || w.news() != "ns/web" || len(w.Services()) != 0 {
		t.Error("something is still imported")
	}
	// What goes meanwhile must not come back.
	must(t, w.untold(b, exportedSlice("b", "web", "web-1")))
	must(t, w.told(b, exportedService("b", "api")))
	must(t, w.untold(b, exportedService("b", "web")))
	w.SetIdentity(me)
	if w.exports("web") != "" || w.exports("api") != "b" {
		t.Errorf("web is exported by %q, api by %q", w.exports("web"), w.exports("api"))
	}
	w.memory.flush(t.Context())
	if got := names(loaded(t, memory)["b"]); got != "api.b" {
		t.Errorf("remembered are %q, want what is exported now", got)
	}
}

// R101: of two clusters with one id the one with the older claim stays, and
// both can be seen.
func TestSecondClusterWithAnIDIsKeptOut(t *testing.T) {
	w, _ := exporting(t, nil)
	other := w.add("b", func(s *spec) { s.secret, s.uid = "other", "secret-other" })
	w.claimed(other, &claims{id: "b", clusterSet: "set", idClaimedAt: epoch.Add(1)})
	w.answers(other, own("b", withUID("uid-other")))
	must(t, w.replaced(other, services, []any{exportedService("b", "api")}))
	if w.exports("web") != "b" || w.exports("api") != "" {
		t.Errorf("web is exported by %q, api by %q", w.exports("web"), w.exports("api"))
	}
	if got := w.Names(); len(got) != 3 || got[2] != "secret.other" {
		t.Fatalf("there are entries %v", got)
	}
	expectCondition(t, w.Entry("secret.other"), clusterset.MemberAccepted, "False", reasonDuplicateID, "give the other cluster another id")
	expectCondition(t, w.Entry("b"), clusterset.MemberAccepted, "True", reasonAccepted, "")
}

func TestUnusableAnswerIsAFailure(t *testing.T) {
	w, b := exporting(t, nil)
	w.probed(b, nil, errors.New("connection refused"))
	if w.exports("web") != "b" {
		t.Error("a failure was taken for an answer")
	}
	expectCondition(t, w.Entry("b"), clusterset.MemberReachable, "False", "Unreachable", "connection refused")
}
