// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/access"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

// R201, R202: a member that exports more than its memory limit keeps what is held,
// the rest is reported, and is read again as soon as there is room.
func TestExportsBeyondTheMemoryLimitAreReportedAndReadAgain(t *testing.T) {
	w := newFixture(t, nil)
	b, c := w.join("b"), w.join("c")
	service, slice := w.arrival(t, b, exported("b", "web")), w.arrival(t, b, exportedSlice("b", "web", "web-1"))
	b.peer.spec.Limits.Bytes = service.Object.Bytes + slice.Object.Bytes
	w.replace(t, b, exports.Services, exported("b", "web"))
	w.replace(t, b, exports.EndpointSlices, exportedSlice("b", "web", "web-1"), exportedSlice("b", "web", "web-2"))
	w.replace(t, c, exports.Services, exported("c", "web"))
	large := exportedSlice("b", "web", "web-3")
	large.Spec.Endpoints = append(large.Spec.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.0.0.3"}})
	w.upsert(t, b, large)
	if got := w.Entry("b").Status; w.exporters("web") != "b,c" || got.Endpoints != 2 {
		t.Errorf("web is exported by %q, with %d endpoints", w.exporters("web"), got.Endpoints)
	}
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionFalse, "InvalidObjects",
		"2 objects are rejected or admitted only in part")
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionFalse, "InvalidObjects",
		"exportedendpointslices ns/web-2.b: exports of the member take more than")
	feed := b.feed.(*fakeFeed)
	if feed.reread {
		t.Error("everything is read again although there is no room")
	}
	w.remove(t, b, exportedSlice("b", "web", "web-1"))
	if !feed.reread {
		t.Error("nothing is read again although there is room")
	}
	feed.reread = false
	w.replace(t, b, exports.EndpointSlices, exportedSlice("b", "web", "web-2"))
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionTrue, "Synced", "")
	w.remove(t, b, exportedSlice("b", "web", "web-2"))
	if feed.reread {
		t.Error("everything is read again although nothing was refused")
	}
}

// R201, R202, R203: the limit in the Secret holds for what a server sends.
func TestRefusedExportComesBackWhenAnotherIsWithdrawn(t *testing.T) {
	server := membertest.NewServer(t, "b")
	large := func(s *clustersetv1alpha1.ExportedService) {
		s.Spec.ExportedAnnotations = map[string]string{"text": strings.Repeat("x", 240<<10)}
	}
	for _, name := range []string{"1", "2", "3", "4", "5"} { // four of them fit
		server.Export(name, large)
	}
	r := newRunning(t, newHost(), secretFor("b", server.Kubeconfig("token-1"), withData(clusterset.MemberSecretMemoryLimit, "1Mi")))
	r.run(t)
	synced := func() string {
		return meta.FindStatusCondition(r.Entry("b").Status.Conditions, clusterset.MemberSynced).Reason
	}
	eventually(t, "the fifth export is reported", func() bool { return synced() == "InvalidObjects" })
	if r.exporters("1") != "b" || r.exporters("4") != "b" || r.exporters("5") != "" {
		t.Errorf("held are %v", r.Services())
	}
	server.Withdraw("1")
	eventually(t, "the fifth export is held", func() bool { return r.exporters("5") == "b" && r.exporters("1") == "" && synced() == "Synced" })
}

// R208: what is refused is counted by member and reason, until it is not any more.
func TestRefusalsAreCounted(t *testing.T) {
	const id = "counted"
	counts := func() string {
		t.Helper()
		families, err := legacyregistry.DefaultGatherer.Gather()
		must(t, err)
		var lines []string
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				labels := map[string]string{}
				for _, label := range metric.GetLabel() {
					labels[label.GetName()] = label.GetValue()
				}
				if family.GetName() == "mcs_apiserver_member_refused_objects" && labels["cluster"] == id {
					lines = append(lines, fmt.Sprintf("%s=%v", labels["reason"], metric.GetGauge().GetValue()))
				}
			}
		}
		slices.Sort(lines)
		return strings.Join(lines, " ")
	}
	expect := func(want string) {
		t.Helper()
		if got := counts(); got != want {
			t.Errorf("refusals are %q, want %q", got, want)
		}
	}
	w := newFixture(t, nil)
	w.upsertSecret(t.Context(), secretFor(id, membertest.ValidKubeconfig()))
	b := w.connect(w.peers["member-"+id])
	bad, loopback := exported(id, "web"), exportedSlice(id, "web", "web-1")
	bad.Spec.Type = "bad"
	loopback.Spec.Endpoints[0].Addresses[0] = "127.0.0.1"
	w.replace(t, b, exports.Services, bad, exported("other", "web"))
	w.upsert(t, b, loopback)
	expect("ForbiddenAddress=1 Invalid=1 NotRelayed=1")
	expectCondition(t, w.Entry(id), clusterset.MemberSynced, metav1.ConditionFalse, "InvalidObjects",
		"3 objects are rejected or admitted only in part (ForbiddenAddress: 1, Invalid: 1, NotRelayed: 1), the first: exportedservices ns/web.counted: ")
	b.ReadFailed(exports.Services, access.TooLargeError{})
	expect("ForbiddenAddress=1 Invalid=1 NotRelayed=1 ResponseTooLarge=1")
	expectCondition(t, w.Entry(id), clusterset.MemberSynced, metav1.ConditionFalse, "ResponseTooLarge", "response is larger than the limit")
	b.ReadFailed(exports.Services, nil)
	w.replace(t, b, exports.Services, exported(id, "web"))
	expect("ForbiddenAddress=1")
	w.removeSecret(t.Context(), secretFor(id, membertest.ValidKubeconfig()))
	expect("")
}
