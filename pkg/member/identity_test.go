// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/acceptance"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
)

// R102: another cluster with the same ID inherits nothing.
func TestNewClusterWithTheSameIDInheritsNothing(t *testing.T) {
	recorded := newHost()
	w, b := exporting(t, recorded)
	w.persist(t)
	w.probe(b, ownEntry("b", withUID("uid-successor")))
	if w.exporters("web") != "" || w.notified() != "ns/web" {
		t.Error("the new cluster inherited the exports of the old one")
	}
	if got := w.Entry("b").Status; got.State != clusterset.MemberConnecting || got.ClusterUID != "uid-successor" {
		t.Errorf("the new cluster is %s before its claims are read", got.State)
	}
	w.upsert(t, b, exported("b", "late"))
	now := w.connect(b.peer)
	now.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "set", ClaimedAt: epoch})
	w.replace(t, now, exports.Services, exported("b", "api"))
	w.probe(now, ownEntry("b", withUID("uid-successor")))
	if w.exporters("api") != "b" || w.exporters("late") != "" {
		t.Errorf("api is exported by %q, late by %q", w.exporters("api"), w.exporters("late"))
	}
	w.persist(t)
	got := loaded(t, recorded)["b"]
	if got.UID != "uid-successor" || names(got) != "api.b" {
		t.Errorf("recorded of %s: %s", got.UID, names(got))
	}
}

func TestEntryWithoutAUIDIsIgnored(t *testing.T) {
	w, b := exporting(t, nil)
	w.probe(b, ownEntry("b", withUID("")))
	if w.exporters("web") != "b" || w.Entry("b").Status.ClusterUID != "uid-b" {
		t.Error("an entry without a UID was used")
	}
}

// The UID is that of a namespace.
func TestInvalidUIDIsAnError(t *testing.T) {
	for _, uid := range []types.UID{"../c/uid-c", "a/b", "A", "..", "."} {
		w, b := exporting(t, nil)
		w.probe(b, ownEntry("b", withUID(uid)))
		if w.exporters("web") != "b" || b.peer.probeError == nil || b.peer.uid != "uid-b" {
			t.Errorf("UID %q is accepted: %v", uid, b.peer.probeError)
		}
	}
}

// R6, R110: a cluster that leaves the ClusterSet is refused at once, and does not
// come back after a restart.
func TestMemberThatLeftIsForgotten(t *testing.T) {
	for name, claims := range map[string]identity.Claims{
		"leaves": {ID: "b"}, "joins another ClusterSet": {ID: "b", ClusterSet: "other"}, "is renamed": {ID: "c", ClusterSet: "set"},
	} {
		t.Run(name, func(t *testing.T) {
			recorded := newHost()
			w, b := exporting(t, recorded)
			w.persist(t)
			b.ClaimsRead(claims)
			if w.exporters("web") != "" || w.notified() != "ns/web" || w.Entry("b").Status.State != clusterset.MemberRefused {
				t.Error("it is still a member")
			}
			w.persist(t)
			if got := loaded(t, recorded); len(got) != 0 {
				t.Errorf("it is still recorded: %v", got)
			}
			b.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "set"})
			w.persist(t)
			if w.exporters("web") != "b" || names(loaded(t, recorded)["b"]) != "web.b" {
				t.Error("it is not accepted after it joined again")
			}
		})
	}
}

// R110: without a ClusterSet nothing is imported; after joining again everything is.
func TestNothingIsImportedOutsideOfAClusterSet(t *testing.T) {
	recorded := newHost()
	w, b := exporting(t, recorded)
	outside := self
	outside.ClusterSet = ""
	w.SetIdentity(outside)
	if w.exporters("web") != "" || w.notified() != "ns/web" || len(w.Services()) != 0 {
		t.Error("something is still imported")
	}
	// What is withdrawn in the meantime must not come back.
	w.remove(t, b, exportedSlice("b", "web", "web-1"))
	w.upsert(t, b, exported("b", "api"))
	w.remove(t, b, exported("b", "web"))
	w.SetIdentity(self)
	if w.exporters("web") != "" || w.exporters("api") != "b" {
		t.Errorf("web is exported by %q, api by %q", w.exporters("web"), w.exporters("api"))
	}
	w.persist(t)
	if got := names(loaded(t, recorded)["b"]); got != "api.b" {
		t.Errorf("recorded are %q, want what is exported now", got)
	}
}

// R101: of two clusters with one ID the one with the older claim is accepted, and
// both have entries.
func TestSecondClusterWithTheSameIDIsRefused(t *testing.T) {
	w, _ := exporting(t, nil)
	other := w.add("b", func(s *secret.Spec) { s.Name, s.UID = "other", "secret-other" })
	other.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "set", ClaimedAt: epoch.Add(1)})
	w.probe(other, ownEntry("b", withUID("uid-other")))
	w.replace(t, other, exports.Services, exported("b", "api"))
	if w.exporters("web") != "b" || w.exporters("api") != "" {
		t.Errorf("web is exported by %q, api by %q", w.exporters("web"), w.exporters("api"))
	}
	if got := w.Names(); len(got) != 3 || got[2] != "secret.other" {
		t.Fatalf("there are entries %v", got)
	}
	expectCondition(t, w.Entry("secret.other"), clusterset.MemberAccepted, "False", acceptance.ReasonDuplicateID, "give the other cluster another ID")
	expectCondition(t, w.Entry("b"), clusterset.MemberAccepted, "True", acceptance.ReasonAccepted, "")
}

func TestFailedProbeChangesNoExports(t *testing.T) {
	w, b := exporting(t, nil)
	b.Probed(nil, errors.New("connection refused"))
	if w.exporters("web") != "b" {
		t.Error("a failed probe removed an export")
	}
	expectCondition(t, w.Entry("b"), clusterset.MemberReachable, "False", "Unreachable", "connection refused")
}
