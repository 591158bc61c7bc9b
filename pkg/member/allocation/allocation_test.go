// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

// R127: of two clusters whose allocation CIDRs overlap, the one that joined first allocates.
func TestOlderClusterKeepsOverlappingCIDRs(t *testing.T) {
	now := time.Now()
	first, second := Claim{Cluster: "b", ClaimedAt: now.Add(-time.Hour), CIDRs: []string{"243.1.0.0/16"}}, Claim{Cluster: "a", ClaimedAt: now, CIDRs: []string{"243.1.128.0/17"}}
	twin, apart := Claim{Cluster: "c", ClaimedAt: now, CIDRs: []string{"243.1.128.0/17"}}, Claim{Cluster: "d", ClaimedAt: now.Add(-2 * time.Hour), CIDRs: []string{"243.2.0.0/16", "fd00::/112"}}
	all := []Claim{first, second, twin, apart}
	for _, test := range []struct {
		Claim
		problem string
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		{first, "", metav1.ConditionTrue, "Allocates", ""},
		{second, "", metav1.ConditionFalse, "Overlaps", `overlap 243.1.0.0/16 of cluster "b"`},
		{twin, "", metav1.ConditionFalse, "Overlaps", "--clusterset-ip-cidr"},
		{apart, "", metav1.ConditionTrue, "Allocates", ""},
		{Claim{Cluster: "e"}, "outside", metav1.ConditionFalse, "Invalid", "outside"},
	} {
		condition := Condition(test.Claim, conflictWith(all, test.Cluster), test.problem)
		if condition == nil || condition.Status != test.status || condition.Reason != test.reason || !strings.Contains(condition.Message, test.message) {
			t.Errorf("%s: %+v, want %s/%s", test.Cluster, condition, test.status, test.reason)
		}
	}
	if condition := Condition(Claim{Cluster: "e"}, nil, ""); condition != nil {
		t.Errorf("a cluster without allocation CIDRs has %+v", condition)
	}
}

func conflictWith(claims []Claim, cluster string) *Claim {
	if conflict, ok := Conflicts(claims)[cluster]; ok {
		return &conflict
	}
	return nil
}

func TestConflictsAreThoseOfComparingAllPairs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible, no secret
	for range 2000 {
		var claims []Claim
		for i := range 1 + random.IntN(8) {
			claim := Claim{Cluster: fmt.Sprint("c", i), ClaimedAt: time.Unix(random.Int64N(3), 0), Relayed: random.IntN(2) == 0}
			for range random.IntN(3) {
				address := netip.AddrFrom4([4]byte{243, byte(random.IntN(4)), byte(random.IntN(4) * 64), 0})
				claim.CIDRs = append(claim.CIDRs, netip.PrefixFrom(address, 10+random.IntN(10)).Masked().String())
			}
			claims = append(claims, claim)
		}
		got := Conflicts(claims)
		for _, own := range claims {
			conflict, found := got[own.Cluster]
			if found && !takesPrecedence(conflict, own) {
				t.Fatalf("%v: %v conflicts with %v", claims, own, conflict)
			}
			if want := slices.ContainsFunc(claims, func(other Claim) bool { return takesPrecedence(other, own) }); found != want {
				t.Fatalf("%v: %v has a conflict: %v, want %v", claims, own, found, want)
			}
		}
	}
}

func takesPrecedence(other, own Claim) bool {
	a, errA := clustersetip.ParseCIDRs(other.CIDRs)
	b, errB := clustersetip.ParseCIDRs(own.CIDRs)
	_, _, overlap := clustersetip.Overlap(a, b)
	older := other.ClaimedAt.Before(own.ClaimedAt) || other.ClaimedAt.Equal(own.ClaimedAt) && other.Cluster < own.Cluster
	if other.Relayed != own.Relayed { // R288
		older = own.Relayed
	}
	return errA == nil && errB == nil && overlap && older && other.Cluster != own.Cluster
}

// R288: the message about a refused claim says what is still believed of the member.
func TestRefusedClaimSaysWhatIsBelieved(t *testing.T) {
	assigned := []netip.Prefix{netip.MustParsePrefix("243.2.0.0/16")}
	message := Unassigned(Claim{Cluster: "b", CIDRs: []string{"243.1.0.0/16"}}, assigned)
	for _, part := range []string{`"b" claims allocation CIDRs [243.1.0.0/16]`, "in the allocation CIDRs of other clusters are not believed, those in no allocation CIDR are"} {
		if !strings.Contains(message, part) {
			t.Errorf("got message %q, want %q in it", message, part)
		}
	}
	allocations := Usable([]Claim{{Cluster: "a", CIDRs: []string{"243.1.0.0/16"}}}, nil) // the refused claim is none
	for ip, want := range map[string]bool{"243.1.0.1": false, "243.2.0.1": true, "243.3.0.1": true} {
		if got := allocations.Believes(clustersetip.NewDecision("b", []string{ip}, time.Time{})); got != want {
			t.Errorf("%s is believed: %t, want %t", ip, got, want)
		}
	}
}
