// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// R127: of two clusters whose parts overlap, the one that joined first allocates.
func TestOverlappingPartIsOnlyTheFirsts(t *testing.T) {
	now := time.Now()
	first, second := part{"b", now.Add(-time.Hour), []string{"243.1.0.0/16"}}, part{"a", now, []string{"243.1.128.0/17"}}
	twin, apart := part{"c", now, []string{"243.1.128.0/17"}}, part{"d", now.Add(-2 * time.Hour), []string{"243.2.0.0/16", "fd00::/112"}}
	all := []part{first, second, twin, apart}
	for _, test := range []struct {
		part
		problem string
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		{first, "", metav1.ConditionTrue, "Allocates", ""},
		{second, "", metav1.ConditionFalse, "Overlaps", `overlaps that of "b", 243.1.0.0/16`},
		{twin, "", metav1.ConditionFalse, "Overlaps", "--clusterset-ip-cidr"},
		{apart, "", metav1.ConditionTrue, "Allocates", ""},
		{part{cluster: "e"}, "it is outside", metav1.ConditionFalse, "Invalid", "it is outside"},
	} {
		condition := test.condition(all, test.problem)
		if condition == nil || condition.Status != test.status || condition.Reason != test.reason || !strings.Contains(condition.Message, test.message) {
			t.Errorf("%s: %+v, want %s/%s", test.cluster, condition, test.status, test.reason)
		}
	}
	if condition := (part{cluster: "e"}).condition(all, ""); condition != nil {
		t.Errorf("a cluster without a part has %+v", condition)
	}
}

// Nobody can take traffic by naming an address that is not in the range.
func TestIPsOutsideTheRangeAreLeftOut(t *testing.T) {
	ranges := []netip.Prefix{netip.MustParsePrefix("243.0.0.0/8")}
	for ip, taken := range map[string]bool{"243.1.0.1": true, "10.96.0.1": false, "8.8.8.8": false, "fd00::1": false} {
		service := &clusterset.ExportedService{Spec: clusterset.ExportedServiceSpec{ClusterSetIP: &clusterset.ClusterSetIPDecision{IPs: []string{ip}, DecidedBy: "b"}}}
		err := dropOutside(service, ranges)
		if (err == nil) != taken || (service.Spec.ClusterSetIP != nil) != taken {
			t.Errorf("%s: %v, %+v", ip, err, service.Spec.ClusterSetIP)
		}
	}
	if err := dropOutside(&clusterset.ExportedService{}, ranges); err != nil {
		t.Error(err)
	}
}

// R127: a part is another's also if that cluster is known by a hub, or has not been
// heard since a restart.
func TestPartsOfAllKnownClustersCount(t *testing.T) {
	const cidr = "243.1.0.0/16"
	cidrs := func(s *clustersetv1alpha1.MemberStatus) { s.ClusterSetIPCIDRs = []string{cidr} }
	claimed := func(s *clustersetv1alpha1.MemberStatus) { s.IDClaimedAt = ptr.To(metav1.NewTime(epoch)) }
	younger := me
	younger.IDClaimedAt, younger.CIDRs = epoch.Add(time.Hour), cidr
	t.Run("by a hub", func(t *testing.T) {
		w := newWorld(t, nil)
		w.SetIdentity(younger)
		expectCondition(t, w.Entry("a"), clusterset.MemberClusterSetIP, "True", "Allocates", "")
		h := w.join("h", hubFor("*"))
		w.answers(h, own("h"), relayedEntry("x", cidrs, claimed))
		expectCondition(t, w.Entry("a"), clusterset.MemberClusterSetIP, "False", "Overlaps", `"x"`)
	})
	t.Run("after a restart", func(t *testing.T) {
		memory := newMemory(t)
		w := newWorld(t, memory)
		b := w.join("b")
		w.clock.Step(sightingInterval)
		w.answers(b, own("b", cidrs))
		w.memory.flush(t.Context())
		after := restart(t, memory, time.Second)
		after.SetIdentity(younger)
		after.add("b")
		expectCondition(t, after.Entry("a"), clusterset.MemberClusterSetIP, "False", "Overlaps", `"b"`)
		if got := after.Entry("b").Status.ClusterSetIPCIDRs; len(got) != 1 || got[0] != cidr {
			t.Errorf("the part of b is %v", got)
		}
	})
}

// A member with another range is told apart: its addresses do not count here.
func TestPartOutsideTheRangeIsShown(t *testing.T) {
	w := newWorld(t, nil)
	w.config.Ranges = []netip.Prefix{netip.MustParsePrefix("243.0.0.0/8")}
	b := w.join("b")
	for cidr, want := range map[string]struct{ status, reason, message string }{
		"243.1.0.0/16": {"True", "Allocates", ""},
		"250.1.0.0/16": {"False", "Invalid", "--clusterset-ip-range has to be the same"},
		"250.1.0.9/16": {"False", "Invalid", "cannot be used"},
	} {
		w.answers(b, own("b", func(s *clustersetv1alpha1.MemberStatus) { s.ClusterSetIPCIDRs = []string{cidr} }))
		expectCondition(t, w.Entry("b"), clusterset.MemberClusterSetIP, metav1.ConditionStatus(want.status), want.reason, want.message)
	}
}
