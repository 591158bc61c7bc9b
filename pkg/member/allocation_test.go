// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
)

// R127: CIDRs conflict also with those of a cluster that a hub relays, or that has
// not been read since a restart.
func TestAllocationCIDRsOfAllClustersCount(t *testing.T) {
	const cidr = "243.1.0.0/16"
	cidrs := func(s *clustersetv1alpha1.MemberStatus) { s.ClusterSetIPCIDRs = []string{cidr} }
	claimed := func(s *clustersetv1alpha1.MemberStatus) { s.IDClaimedAt = ptr.To(metav1.NewTime(epoch)) }
	younger := self
	younger.IDClaimedAt, younger.CIDRs = epoch.Add(time.Hour), cidr
	t.Run("relayed", func(t *testing.T) {
		w := newFixture(t, nil)
		w.SetIdentity(younger)
		expectCondition(t, w.Entry("a"), clusterset.MemberClusterSetIP, "True", "Allocates", "")
		h := w.join("h", hubFor("*"))
		w.probe(h, ownEntry("h"), relayedEntry("x", cidrs, claimed))
		expectCondition(t, w.Entry("a"), clusterset.MemberClusterSetIP, "False", "Overlaps", `"x"`)
	})
	t.Run("after a restart", func(t *testing.T) {
		recorded := newHost()
		w := newFixture(t, recorded)
		b := w.join("b")
		w.probe(b, ownEntry("b", cidrs))
		w.replace(t, b, exports.Services)
		w.persist(t)
		after := restart(t, recorded, time.Second)
		after.SetIdentity(younger)
		after.add("b")
		expectCondition(t, after.Entry("a"), clusterset.MemberClusterSetIP, "False", "Overlaps", `"b"`)
		if got := after.Entry("b").Status.ClusterSetIPCIDRs; len(got) != 1 || got[0] != cidr {
			t.Errorf("the allocation CIDRs of b are %v", got)
		}
	})
}

// A member with another ClusterSet IP range is reported: its addresses are ignored.
func TestAllocationCIDRsOutsideOfTheRangeAreReported(t *testing.T) {
	w := newFixture(t, nil)
	w.config.Ranges = []netip.Prefix{netip.MustParsePrefix("243.0.0.0/8")}
	b := w.join("b")
	for cidr, want := range map[string]struct{ status, reason, message string }{
		"243.1.0.0/16": {"True", "Allocates", ""},
		"250.1.0.0/16": {"False", "Invalid", "set --clusterset-ip-range to the same value"},
		"250.1.0.9/16": {"False", "Invalid", "are invalid"},
	} {
		w.probe(b, ownEntry("b", func(s *clustersetv1alpha1.MemberStatus) { s.ClusterSetIPCIDRs = []string{cidr} }))
		expectCondition(t, w.Entry("b"), clusterset.MemberClusterSetIP, metav1.ConditionStatus(want.status), want.reason, want.message)
	}
}

// The allocation CIDRs of a cluster that is not accepted, or not yet, do not
// conflict with those of members, but their conflict with them is reported.
func TestConflictOfAClusterThatIsNotAcceptedIsReported(t *testing.T) {
	const cidr = "243.1.0.0/16"
	holder := self
	holder.CIDRs = cidr
	cidrs := func(s *clustersetv1alpha1.MemberStatus) { s.ClusterSetIPCIDRs = []string{cidr} }
	w := newFixture(t, nil)
	w.config.Ranges = []netip.Prefix{netip.MustParsePrefix("243.0.0.0/8")}
	w.SetIdentity(holder)
	b := w.add("b")
	w.probe(b, ownEntry("b", cidrs))
	expectCondition(t, w.Entry("b"), clusterset.MemberClusterSetIP, "False", "Overlaps", `"a"`)
	b.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "other", ClaimedAt: epoch.Add(-time.Hour)})
	expectCondition(t, w.Entry("a"), clusterset.MemberClusterSetIP, "True", "Allocates", "")
	expectCondition(t, w.Entry("b"), clusterset.MemberClusterSetIP, "True", "Allocates", "")
	b.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "other", ClaimedAt: epoch.Add(time.Hour)})
	expectCondition(t, w.Entry("b"), clusterset.MemberClusterSetIP, "False", "Overlaps", `"a"`)
}
