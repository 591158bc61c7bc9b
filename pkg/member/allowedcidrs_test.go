// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
)

// addresses returns the endpoints of web.
func (f *fixture) addresses() string {
	var addresses []string
	for _, export := range f.Exports(types.NamespacedName{Namespace: "ns", Name: "web"}) {
		for _, slice := range export.Slices {
			for _, endpoint := range slice.Spec.Endpoints {
				addresses = append(addresses, endpoint.Addresses...)
			}
		}
	}
	return fmt.Sprint(addresses)
}

// allowed-cidrs apply to what is held, not only to what is read next.
func TestAllowedCIDRsApplyToWhatIsHeld(t *testing.T) {
	w := newFixture(t, nil)
	w.upsertSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig()))
	b := w.connect(w.peers["member-b"])
	b.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "set", ClaimedAt: epoch})
	w.probe(b, ownEntry("b", withExports(1)))
	w.replace(t, b, exports.Services, exported("b", "web"))
	w.replace(t, b, exports.EndpointSlices, exportedSlice("b", "web", "web-1"))
	held := w.Exports(types.NamespacedName{Namespace: "ns", Name: "web"})[0]
	w.notified()

	w.upsertSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig(), withData(clusterset.MemberSecretAllowedCIDRs, "10.0.0.1/32")))
	if got := w.addresses(); got != "[10.0.0.1]" {
		t.Errorf("endpoints are %s after the allowed CIDRs were tightened, want [10.0.0.1]", got)
	}
	if got := w.Entry("b").Status.Endpoints; got != 1 {
		t.Errorf("%d endpoints are counted, want 1", got)
	}
	if got := w.notified(); got != "ns/web" {
		t.Errorf("%q was reported as changed, want ns/web", got)
	}
	if len(held.Slices[0].Spec.Endpoints) != 2 {
		t.Error("an object that was returned earlier was modified")
	}

	// Wider CIDRs need what was dropped: the next feed reads everything again.
	w.upsertSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig(), withData(clusterset.MemberSecretAllowedCIDRs, "10.0.0.0/24")))
	if w.peers["member-b"].receiver != nil {
		t.Error("the feed with the previous allowed CIDRs is still running")
	}
	b = w.connect(w.peers["member-b"])
	w.replace(t, b, exports.EndpointSlices, exportedSlice("b", "web", "web-1"))
	if got := w.addresses(); got != "[10.0.0.1 10.0.0.2]" {
		t.Errorf("endpoints are %s after the allowed CIDRs were widened, want both", got)
	}
}

// allowed-cidrs may be tightened while the server is down.
func TestAllowedCIDRsApplyToWhatIsRecalled(t *testing.T) {
	recorded := newHost()
	w, _ := exporting(t, recorded)
	w.persist(t)
	after := restart(t, recorded, time.Second)
	after.add("b", func(s *secret.Spec) { s.AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("10.0.0.2/32")} })
	if got := after.addresses(); got != "[10.0.0.2]" {
		t.Errorf("endpoints are %s, want [10.0.0.2]", got)
	}
	if got := after.Entry("b").Status.Endpoints; got != 1 {
		t.Errorf("%d endpoints are counted, want 1", got)
	}
}

// R310: what an invalid Secret allows is not known: exports are used as before until the
// Secret is corrected.
func TestInvalidSecretRemovesNoExports(t *testing.T) {
	recorded := newHost()
	w := newFixture(t, recorded)
	update := func(cidrs string) *receiver {
		w.upsertSecret(t.Context(), secretFor("b", membertest.ValidKubeconfig(), withData(clusterset.MemberSecretAllowedCIDRs, cidrs)))
		return w.connect(w.peers["member-b"])
	}
	b := update("10.0.0.1/32,10.0.0.2/32")
	b.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "set", ClaimedAt: epoch})
	w.probe(b, ownEntry("b", withExports(1)))
	w.replace(t, b, exports.Services, exported("b", "web"))
	w.replace(t, b, exports.EndpointSlices, exportedSlice("b", "web", "web-1"))
	w.persist(t)
	update("10.0.0.1/32,10.0.0.2/33")
	if got := w.addresses(); got != "[10.0.0.1 10.0.0.2]" {
		t.Errorf("endpoints are %s while the Secret is invalid, want both", got)
	}
	update("10.0.0.1/32,10.0.0.2/32")
	if got := w.addresses(); got != "[10.0.0.1 10.0.0.2]" {
		t.Errorf("endpoints are %s after the Secret was corrected, want both", got)
	}
	update("10.0.0.1/32,10.0.0.2/33")
	update("10.0.0.2/32")
	if got := w.addresses(); got != "[10.0.0.2]" {
		t.Errorf("endpoints are %s after the Secret was corrected and tightened, want [10.0.0.2]", got)
	}
	w = restart(t, recorded, time.Second)
	update("10.0.0.1/32,10.0.0.2/33")
	update("10.0.0.1/32,10.0.0.2/32")
	if got := w.addresses(); got != "[10.0.0.1 10.0.0.2]" {
		t.Errorf("recalled endpoints are %s after the Secret was corrected, want both", got)
	}
}

// R205: the networks of this cluster apply to what is held, and to what arrives while
// they change. What is not in them any more is read again.
func TestNetworksApplyToWhatIsHeld(t *testing.T) {
	w, b := exporting(t, nil)
	c := w.join("c")
	late := w.arrival(t, b, exportedSlice("b", "web", "web-2")) // admitted before, arrives after the change
	node := exports.NewNetworks([]netip.Addr{netip.MustParseAddr("10.0.0.2")}, nil, nil)
	w.SetNetworks(node)
	if got := w.addresses(); got != "[10.0.0.1]" || w.notified() != "ns/web" {
		t.Errorf("endpoints are %s, want [10.0.0.1]", got)
	}
	b.Upsert(late)
	if got := w.addresses(); got != "[10.0.0.1 10.0.0.1]" {
		t.Errorf("endpoints are %s, want 10.0.0.1 twice", got)
	}
	expectCondition(t, w.Entry("b"), clusterset.MemberSynced, metav1.ConditionFalse, "InvalidObjects",
		"1 endpoints are ignored, for example 10.0.0.2: address of a Node of this cluster")
	if !b.feed.(*fakeFeed).reread || c.feed.(*fakeFeed).reread {
		t.Error("the member whose endpoints were removed is not read again, or another one is")
	}
	b.feed.(*fakeFeed).reread = false
	w.SetNetworks(exports.NewNetworks(nil, nil, nil))
	if !b.feed.(*fakeFeed).reread || c.feed.(*fakeFeed).reread {
		t.Error("the member whose endpoints may be used now is not read again, or another one is")
	}
}

// R205: what is remembered of a member was admitted when the networks were others.
func TestNetworksApplyToWhatIsRemembered(t *testing.T) {
	recorded := newHost()
	before, _ := exporting(t, recorded)
	before.persist(t)
	w := restart(t, recorded, time.Minute)
	w.SetNetworks(exports.NewNetworks([]netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil, nil))
	w.add("b")
	if got := w.addresses(); got != "[10.0.0.2]" {
		t.Errorf("endpoints are %s, want [10.0.0.2]", got)
	}
}
