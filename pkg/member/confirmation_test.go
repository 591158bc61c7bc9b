// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
)

// An empty list may be followed by some of the objects only. The others are kept
// until the count of the member confirms that they are gone, and not longer.
func TestObjectsThatAreNotListedAgainAreRemovedOnceTheCountAgrees(t *testing.T) {
	w, b := exporting(t, nil)
	w.upsert(t, b, exported("b", "api"))
	w.replace(t, b, exports.Services)
	w.upsert(t, b, exported("b", "api"))
	if w.exporters("web") != "b" || w.Entry("b").Status.Synced {
		t.Fatal("an empty list removed an export without a confirmation")
	}
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionFalse, "UnconfirmedRemoval", "1 objects that were not listed are kept")
	if !b.feed.ProbePending() {
		t.Error("the member is not probed after an object was reported again")
	}
	w.probe(b, ownEntry("b", withExports(2)))
	if w.exporters("web") != "b" || w.Settled() {
		t.Fatal("an export was removed although the member still counts it")
	}
	w.notified()
	w.probe(b, ownEntry("b", withExports(1)))
	if w.exporters("web") != "" || w.exporters("api") != "b" {
		t.Errorf("web is exported by %q, api by %q, want only api", w.exporters("web"), w.exporters("api"))
	}
	if got := w.notified(); got != "ns/web" {
		t.Errorf("%q was reported as changed, want ns/web", got)
	}
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionTrue, "Synced", "")
}

// The member counts objects and endpoints that are rejected here too.
func TestRejectedObjectsCountForTheConfirmation(t *testing.T) {
	w, b := exporting(t, nil)
	w.upsert(t, b, exportedSlice("b", "web", "web-2"))
	w.upsert(t, b, exported("b", "api"))
	w.replace(t, b, exports.Services)
	w.replace(t, b, exports.EndpointSlices)
	w.upsert(t, b, exported("b", "web"))
	partial := exportedSlice("b", "web", "web-2")
	partial.Spec.Endpoints = append(partial.Spec.Endpoints, discoveryv1.Endpoint{Addresses: []string{"127.0.0.1"}})
	invalid := exported("b", "invalid")
	invalid.Spec.Type = "NodePort"
	w.upsert(t, b, partial)
	w.upsert(t, b, invalid)
	w.probe(b, ownEntry("b", func(s *clustersetv1alpha1.MemberStatus) { s.Exports, s.Endpoints = 2, 3 }))
	if w.exporters("api") != "" || w.exporters("web") != "b" {
		t.Errorf("web is exported by %q, api by %q, want only web, which the member counts", w.exporters("web"), w.exporters("api"))
	}
	if got := w.Entry("b").Status.Endpoints; got != 2 {
		t.Errorf("%d endpoints are held, want the 2 usable ones of the slice that was reported again", got)
	}
}

// A complete list settles what an earlier one left open.
func TestCompleteListNeedsNoConfirmation(t *testing.T) {
	w, b := exporting(t, nil)
	w.upsert(t, b, exported("b", "api"))
	w.replace(t, b, exports.Services)
	w.replace(t, b, exports.Services, exported("b", "api"))
	if w.exporters("web") != "" || w.exporters("api") != "b" || !w.Entry("b").Status.Synced {
		t.Errorf("web is exported by %q, api by %q", w.exporters("web"), w.exporters("api"))
	}
}

// A count from before an object was rejected does not include it, so it may be
// that of an object that is still exported.
func TestEarlierCountDoesNotConfirmAfterARejection(t *testing.T) {
	w, b := exporting(t, nil)
	w.replace(t, b, exports.Services)
	b.feed.(*fakeFeed).pending = false // a probe begins
	invalid := exported("b", "invalid")
	invalid.Spec.Type = "NodePort"
	w.upsert(t, b, invalid)
	w.probed(b, ownEntry("b", withExports(1)))
	if w.exporters("web") != "b" {
		t.Fatal("an export was removed although the member counted it")
	}
	w.probe(b, ownEntry("b", withExports(2)))
	if w.exporters("web") != "b" {
		t.Fatal("an export was removed although the member still counts it")
	}
	w.probe(b, ownEntry("b", withExports(1)))
	if w.exporters("web") != "" {
		t.Error("an export is kept although the member counts only the rejected object")
	}
}
