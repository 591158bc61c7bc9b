// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/identity"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/secret"
)

// R127: CIDRs conflict also with those of a cluster that a hub relays, or that has
// not been read since a restart. R288: whatever the hub says about that cluster, it
// does not get those of this cluster or of a member.
func TestAllocationCIDRsOfAllClustersCount(t *testing.T) {
	const cidr = "243.1.0.0/16"
	cidrs := claiming(cidr)
	claimed := func(s *clustersetv1alpha1.MemberStatus) { s.IDClaimedAt = ptr.To(metav1.NewTime(epoch)) }
	younger := self
	younger.IDClaimedAt, younger.CIDRs = epoch.Add(time.Hour), cidr
	t.Run("relayed", func(t *testing.T) {
		w := newFixture(t, nil)
		w.config.Ranges = []netip.Prefix{netip.MustParsePrefix("243.0.0.0/8")}
		w.SetIdentity(younger)
		b, h := w.join("b"), w.join("h", hubFor("*"))
		b.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "set", ClaimedAt: epoch.Add(time.Hour)})
		w.probe(b, ownEntry("b", claiming("243.2.0.0/16")))
		w.probe(h, ownEntry("h"), relayedEntry("x", cidrs, claimed), relayedEntry("y", claiming("243.2.0.0/15"), claimed), relayedEntry("z", claiming("243.4.0.0/16"), claimed))
		for _, id := range []string{"a", "b"} {
			expectCondition(t, w.Entry(id), clusterset.MemberClusterSetIP, "True", "Allocates", "")
		}
		for id, want := range map[string]string{"a": cidr, "b": "243.2.0.0/16", "x": "", "y": "", "z": "243.4.0.0/16"} {
			expectUsable(t, w, id, want)
		}
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

// R611: the ClusterProperties of a member are remembered.
func TestPropertiesAreKnownAfterARestart(t *testing.T) {
	recorded := newHost()
	w := newFixture(t, recorded)
	b := w.join("b")
	w.probe(b, ownEntry("b", func(s *clustersetv1alpha1.MemberStatus) {
		s.Properties = []clustersetv1alpha1.ClusterProperty{{Name: "region.example.com", Value: "eu"}}
	}))
	w.replace(t, b, exports.Services)
	w.persist(t)
	after := restart(t, recorded, time.Second)
	b = after.add("b")
	if got := after.Entry("b").Status.Properties; len(got) != 1 || got[0].Value != "eu" {
		t.Errorf("b has properties %v", got)
	}
	after.probe(b, ownEntry("b"))
	if got := after.Entry("b").Status.Properties; len(got) > 0 {
		t.Errorf("b has properties %v, which it has not any more", got)
	}
}

// R288: a member that joined before this cluster cannot claim the allocation CIDR that this
// cluster allocates from, if its Secret says which CIDRs it has. The refusal is reported in
// the condition of the Member and counted.
func TestMemberCannotClaimAllocationCIDRsOfOthers(t *testing.T) {
	const cidr, its = "243.1.0.0/16", "243.2.0.0/16"
	w := newFixture(t, nil)
	w.config.Ranges = []netip.Prefix{netip.MustParsePrefix("243.0.0.0/8")}
	younger := self
	younger.IDClaimedAt, younger.CIDRs = epoch.Add(time.Hour), cidr
	w.SetIdentity(younger)
	for name, test := range map[string]struct {
		assigned []netip.Prefix
		claims   []string
		reason   string
		refused  int
		usable   string // by this cluster
	}{
		"its own":             {[]netip.Prefix{netip.MustParsePrefix(its)}, []string{its}, "Allocates", 0, cidr},
		"a part of its own":   {[]netip.Prefix{netip.MustParsePrefix(its)}, []string{"243.2.1.0/24"}, "Allocates", 0, cidr},
		"that of another":     {[]netip.Prefix{netip.MustParsePrefix(its)}, []string{its, cidr}, clusterset.ReasonNotAssigned, 1, cidr},
		"one around both":     {[]netip.Prefix{netip.MustParsePrefix(its)}, []string{"243.0.0.0/8"}, clusterset.ReasonNotAssigned, 1, cidr},
		"none is assigned":    {[]netip.Prefix{}, []string{cidr}, clusterset.ReasonNotAssigned, 1, cidr},
		"the Secret is older": {nil, []string{cidr}, "Allocates", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := w.add("b", func(spec *secret.Spec) { spec.AllocationCIDRs, spec.Digest = test.assigned, name })
			b.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "set", ClaimedAt: epoch})
			w.probe(b, ownEntry("b", claiming(test.claims...)))
			condition := meta.FindStatusCondition(w.Entry("b").Status.Conditions, clusterset.MemberClusterSetIP)
			if condition == nil || condition.Reason != test.reason {
				t.Errorf("condition is %+v, want reason %s", condition, test.reason)
			}
			if got := w.peers["member-b"].refusals[clusterset.ReasonNotAssigned]; got != test.refused {
				t.Errorf("%d refusals are counted, want %d", got, test.refused)
			}
			expectUsable(t, w, "a", test.usable)
		})
	}
}

// R288: a hub cannot claim allocation CIDRs for a member whose Secret does not assign them
// to it, neither before the member has been read nor while its own claim is refused.
func TestHubCannotClaimAllocationCIDRsForMembers(t *testing.T) {
	const cidr, its = "243.1.0.0/16", "243.2.0.0/16"
	assigned := func(spec *secret.Spec) { spec.AllocationCIDRs = []netip.Prefix{netip.MustParsePrefix(its)} }
	w := newFixture(t, nil)
	h, b := w.join("h", hubFor("*")), w.add("b", assigned)
	for _, claim := range []struct{ relayed, usable string }{{cidr, ""}, {its, its}} {
		w.probe(h, ownEntry("h"), relayedEntry("b", claiming(claim.relayed)))
		expectUsable(t, w, "b", claim.usable)
	}
	w.probe(h, ownEntry("h"), relayedEntry("b", claiming(cidr)))
	b.ClaimsRead(identity.Claims{ID: "b", ClusterSet: "set", ClaimedAt: epoch})
	for _, claim := range []struct{ direct, usable string }{{cidr, ""}, {its, its}} {
		w.probe(b, ownEntry("b", claiming(claim.direct)))
		expectUsable(t, w, "b", claim.usable)
	}
}

// R278: what a hub says about a cluster does not take the allocation CIDRs of a cluster that
// another hub relays, which joined earlier, whenever the cluster joined according to the
// hub. The conflict is reported for both, and settled by a Secret.
func TestHubCannotClaimAllocationCIDRsOfAnotherHub(t *testing.T) {
	const cidr = "243.1.0.0/16"
	longAgo := func(s *clustersetv1alpha1.MemberStatus) { s.IDClaimedAt = ptr.To(metav1.Unix(0, 0)) }
	w := newFixture(t, nil)
	w.config.Ranges = []netip.Prefix{netip.MustParsePrefix("243.0.0.0/8")}
	h, g := w.join("h", hubFor("*")), w.add("g", hubFor("*"))
	g.ClaimsRead(identity.Claims{ID: "g", ClusterSet: "set", ClaimedAt: epoch.Add(time.Hour)})
	w.probe(g, ownEntry("g"), relayedEntry("liar", claiming(cidr), longAgo))
	expectUsable(t, w, "liar", cidr)
	w.probe(h, ownEntry("h"), relayedEntry("x", claiming(cidr)))
	expectUsable(t, w, "x", cidr)
	expectUsable(t, w, "liar", "")
	expectCondition(t, w.Entry("x"), clusterset.MemberClusterSetIP, "True", "Contested", `of cluster "liar" (relayed by hub "g") overlap`)
	expectCondition(t, w.Entry("liar"), clusterset.MemberClusterSetIP, "False", "Overlaps", `of cluster "x" (relayed by hub "h"), which takes precedence`)

	w.add("liar", func(spec *secret.Spec) { spec.AllocationCIDRs = []netip.Prefix{netip.MustParsePrefix(cidr)} })
	expectUsable(t, w, "liar", cidr) // it was none: somebody recorded that
	expectUsable(t, w, "x", "")
	expectCondition(t, w.Entry("x"), clusterset.MemberClusterSetIP, "False", "Overlaps", "takes precedence because it is not relayed")
}

// R278: a cluster has no allocation CIDR if the hub that relays it refused its claim, also
// after a restart. That the claim overlaps others in the view of the hub is for this
// cluster to decide.
func TestClaimThatAHubRefusesIsNotUsed(t *testing.T) {
	const cidr = "243.1.0.0/16"
	for reason, usable := range map[string]string{clusterset.ReasonNotAssigned: "", "Overlaps": cidr} {
		t.Run(reason, func(t *testing.T) {
			recorded := newHost()
			w := newFixture(t, recorded)
			h := w.join("h", hubFor("*"))
			w.replace(t, h, exports.Services)
			w.probe(h, ownEntry("h"), relayedEntry("x", claiming(cidr), func(s *clustersetv1alpha1.MemberStatus) {
				s.Conditions = []metav1.Condition{{Type: clusterset.MemberClusterSetIP, Status: metav1.ConditionFalse, Reason: reason, Message: "any"}}
			}))
			w.persist(t)
			after := restart(t, recorded, time.Second)
			after.add("h", hubFor("*"))
			for _, set := range []*fixture{w, after} {
				expectUsable(t, set, "x", usable)
				if usable == "" {
					expectCondition(t, set.Entry("x"), clusterset.MemberClusterSetIP, "False", reason, `hub "h" refuses the allocation CIDRs that cluster "x" claims`)
				}
			}
		})
	}
}

func claiming(cidrs ...string) func(*clustersetv1alpha1.MemberStatus) {
	return func(s *clustersetv1alpha1.MemberStatus) { s.ClusterSetIPCIDRs = cidrs }
}

// expectUsable checks what a cluster can allocate from, separated by commas.
func expectUsable(t *testing.T, w *fixture, cluster, want string) {
	t.Helper()
	var usable []string
	for _, prefix := range w.Allocations().Of(cluster) {
		usable = append(usable, prefix.String())
	}
	if got := strings.Join(usable, ","); got != want {
		t.Errorf("%s allocates from %q, want %q", cluster, got, want)
	}
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
		w.probe(b, ownEntry("b", claiming(cidr)))
		expectCondition(t, w.Entry("b"), clusterset.MemberClusterSetIP, metav1.ConditionStatus(want.status), want.reason, want.message)
	}
}

// The allocation CIDRs of a cluster that is not accepted, or not yet, do not
// conflict with those of members, but their conflict with them is reported.
func TestConflictOfAClusterThatIsNotAcceptedIsReported(t *testing.T) {
	const cidr = "243.1.0.0/16"
	holder := self
	holder.CIDRs = cidr
	cidrs := claiming(cidr)
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
