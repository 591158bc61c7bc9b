// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

const connected = clusterset.MemberConnected

// R15, R27: one hub has lost touch and still has what the other knows to be
// gone. Believing both would keep it alive for ever.
func TestWithdrawnExportIsGoneAlthoughALostHubRemembersIt(t *testing.T) {
	w := newWorld(t, nil)
	g, h := w.join("g", hubFor("x")), w.join("h", hubFor("x"))
	for _, hub := range []*feed{g, h} {
		must(t, w.replaced(hub, services, []any{exportedService("x", "web", "x"), exportedService("x", "api", "x")}))
		w.answers(hub, own(hub.spec.id), relayedEntry("x", exports(2)))
	}
	if w.exports("web") != "x" || w.Entry("x").Status.Path[1] != "g" {
		t.Fatalf("x is known by %v", w.Entry("x").Status.Path)
	}
	w.probed(g, nil, errors.New("no route to host"))
	w.clock.Step(DefaultTTL)
	w.probed(g, nil, errors.New("no route to host"))
	must(t, w.replaced(h, services, []any{exportedService("x", "api", "x")}))
	w.answers(h, own("h"), relayedEntry("x", exports(1)))

	if got := w.exports("web"); got != "" {
		t.Errorf("web is still exported by %q", got)
	}
	if got := w.exports("api"); got != "x" {
		t.Errorf("api is exported by %q, want x", got)
	}
	if got := w.Entry("x").Status; got.State != connected || !cmp.Equal(got.Path, []string{"x", "h"}) || got.Exports != 1 {
		t.Errorf("x is shown as %+v", got)
	}
}

func TestRelayedClusterHasAnEntryOfItsOwn(t *testing.T) {
	w := newWorld(t, nil)
	h := w.join("h", hubFor("*"))
	must(t, w.replaced(h, services, []any{exportedService("h", "web"), exportedService("x", "web", "x")}))
	must(t, w.replaced(h, endpointSlices, []any{exportedSlice("x", "web", "web-1", "x")}))
	entry := relayedEntry("x", exports(7))
	entry.Finalizers, entry.Annotations, entry.Namespace = []string{"x/y"}, map[string]string{"x": "y"}, "ns"
	w.answers(h, own("h"), entry)
	got := w.Entry("x")
	if diff := cmp.Diff(metav1.ObjectMeta{Name: "x"}, got.ObjectMeta); diff != "" {
		t.Errorf("metadata of the hub is passed on: %s", diff)
	}
	if got.Status.Exports != 1 || got.Status.Endpoints != 2 || !got.Status.Synced || !cmp.Equal(got.Status.Path, []string{"x", "h"}) {
		t.Errorf("got %+v, want what is known here", got.Status)
	}
	if w.exports("web") != "h,x" {
		t.Errorf("web is exported by %q", w.exports("web"))
	}
	w.answers(h, own("h"))
	if w.Entry("x") != nil || w.exports("web") != "h" {
		t.Error("a cluster that the hub does not list any more is still there")
	}
}

// A hub that may speak for fewer clusters must not keep what it said of the
// others, nor be waited for to confirm that they are gone.
func TestNarrowedRelayForgetsTheOthers(t *testing.T) {
	w := newWorld(t, nil)
	w.setSecret(t.Context(), secretOf("h", goodKubeconfig, with(clusterset.MemberSecretRelayFor, "x,y")))
	h := w.connect(w.peers["member-h"])
	w.claimed(h, &claims{id: "h", clusterSet: "set", idClaimedAt: epoch})
	all := []any{exportedService("x", "web", "x"), exportedService("y", "web", "y")}
	must(t, w.replaced(h, services, all))
	must(t, w.replaced(h, endpointSlices, nil))
	w.answers(h, own("h"), relayedEntry("x", exports(1)), relayedEntry("y", exports(1)))
	if w.exports("web") != "x,y" {
		t.Fatalf("web is exported by %q", w.exports("web"))
	}
	w.setSecret(t.Context(), secretOf("h", goodKubeconfig, with(clusterset.MemberSecretRelayFor, "x")))
	if got := w.exports("web"); got != "x" {
		t.Errorf("web is exported by %q, want x", got)
	}
	h = w.connect(w.peers["member-h"])
	must(t, w.replaced(h, services, all))
	must(t, w.replaced(h, endpointSlices, nil))
	w.answers(h, own("h"), relayedEntry("x", exports(1)), relayedEntry("y", exports(1)))
	expectCondition(t, w.Entry("h"), clusterset.MemberSynced, metav1.ConditionTrue, "Synced", "")
	if w.Entry("y") != nil {
		t.Error("y still has an entry")
	}
}

func TestHubsEmptyAnswerAboutOneClusterIsDoubted(t *testing.T) {
	w := newWorld(t, nil)
	h := w.join("h", hubFor("*"))
	must(t, w.replaced(h, services, []any{exportedService("h", "web"), exportedService("x", "web", "x")}))
	w.answers(h, own("h"), relayedEntry("x", exports(1)))
	must(t, w.replaced(h, services, []any{exportedService("h", "web")}))
	notSynced := relayedEntry("x")
	notSynced.Status.Synced = false
	w.answers(h, own("h"), notSynced)
	if w.exports("web") != "h,x" {
		t.Fatalf("web is exported by %q: a hub that is not synced was believed", w.exports("web"))
	}
	w.answers(h, own("h"), relayedEntry("x"))
	if w.exports("web") != "h" {
		t.Errorf("web is exported by %q, want h: the hub has confirmed that x has none", w.exports("web"))
	}
}

// A Secret for a cluster that a hub speaks for must not interrupt anything.
func TestMemberDisplacesTheHubOnceItHasBeenHeard(t *testing.T) {
	w := newWorld(t, nil)
	h := w.join("h", hubFor("*"))
	must(t, w.replaced(h, services, []any{exportedService("x", "web", "x")}))
	w.answers(h, own("h"), relayedEntry("x", exports(1)))
	pathOf := func() string {
		var path []string
		for _, export := range w.Exports(types.NamespacedName{Namespace: "ns", Name: "web"}) {
			path = append(path, export.Service.Spec.Path...)
		}
		return strings.Join(path, ",")
	}
	x := w.join("x")
	must(t, w.replaced(x, services, []any{exportedService("x", "web")}))
	if got := pathOf(); got != "x,h" {
		t.Errorf("web is known by %q before x has told its endpoints, want x,h", got)
	}
	w.news()
	must(t, w.replaced(x, endpointSlices, nil))
	if got := pathOf(); got != "x" || w.news() != "ns/web" {
		t.Errorf("web is known by %q, want x", got)
	}
	if got := w.Entry("x"); got.UID != "secret-x" {
		t.Errorf("the entry is not the Secret's: %+v", got)
	}
	w.removeSecret(t.Context(), secretOf("x", goodKubeconfig))
	if got := pathOf(); got != "x,h" {
		t.Errorf("web is known by %q without the Secret, want x,h", got)
	}
}

// R101: also a cluster that is known to be another one by way of a hub can be seen.
func TestNamesakesThatAHubKnowsAreShown(t *testing.T) {
	w := newWorld(t, nil)
	w.join("b")
	h := w.join("h", hubFor("*"))
	refused := relayedEntry("a", withUID("uid-other"))
	refused.Status.State = "Refused"
	for name, test := range map[string]struct {
		entries []clustersetv1alpha1.Member
		reason  string
		message string
	}{
		"none":             {[]clustersetv1alpha1.Member{relayedEntry("a"), relayedEntry("b"), relayedEntry("x")}, "Mutual", ""},
		"mine":             {[]clustersetv1alpha1.Member{relayedEntry("a", withUID("uid-other")), relayedEntry("b")}, reasonDuplicateID, `"a" (UID uid-other); of each two`},
		"a member's":       {[]clustersetv1alpha1.Member{relayedEntry("a"), relayedEntry("b", withUID("uid-other"))}, reasonDuplicateID, `"b" (UID uid-other); of each two`},
		"of another set":   {[]clustersetv1alpha1.Member{relayedEntry("a", withUID("uid-other"), func(s *clustersetv1alpha1.MemberStatus) { s.ClusterSet = "another" })}, "Mutual", ""},
		"one it keeps out": {[]clustersetv1alpha1.Member{refused}, "Mutual", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w.answers(h, append(test.entries, own("h"))...)
			status := metav1.ConditionTrue
			if test.reason == reasonDuplicateID {
				status = metav1.ConditionFalse
			}
			expectCondition(t, w.Entry("h"), clusterset.MemberMutual, status, test.reason, test.message)
		})
	}
}
