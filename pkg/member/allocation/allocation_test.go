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
		condition := Condition(test.Claim, NewConflicts(all).Of(test.Cluster), test.problem)
		if condition == nil || condition.Status != test.status || condition.Reason != test.reason || !strings.Contains(condition.Message, test.message) {
			t.Errorf("%s: %+v, want %s/%s", test.Cluster, condition, test.status, test.reason)
		}
	}
	if condition := Condition(Claim{Cluster: "e"}, Conflict{}, ""); condition != nil {
		t.Errorf("a cluster without allocation CIDRs has %+v", condition)
	}
}

func TestConflictsAreThoseOfComparingAllPairs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible, no secret
	for range 2000 {
		var claims []Claim
		for i := range 1 + random.IntN(8) {
			claim := Claim{Cluster: fmt.Sprint("c", i), ClaimedAt: time.Unix(random.Int64N(3), 0)}
			if hub := random.IntN(5); hub < 3 {
				claim.Hub, claim.HubClaimedAt = fmt.Sprint("h", hub), time.Unix(int64(hub/2), 0)
			}
			for range random.IntN(3) {
				address := netip.AddrFrom4([4]byte{243, byte(random.IntN(4)), byte(random.IntN(4) * 64), 0})
				claim.CIDRs = append(claim.CIDRs, netip.PrefixFrom(address, 10+random.IntN(10)).Masked().String())
			}
			claims = append(claims, claim)
		}
		got := NewConflicts(claims)
		for _, own := range claims {
			lost, found := got.Lost[own.Cluster]
			if found && !takesPrecedence(lost, own) {
				t.Fatalf("%v: %v conflicts with %v", claims, own, lost)
			}
			if want := slices.ContainsFunc(claims, func(other Claim) bool { return takesPrecedence(other, own) }); found != want {
				t.Fatalf("%v: %v has a conflict: %v, want %v", claims, own, found, want)
			}
			contender, found := got.Contested[own.Cluster]
			if found && !takesPrecedence(own, contender) {
				t.Fatalf("%v: %v is contested by %v", claims, own, contender)
			}
			if want := own.Relayed() && slices.ContainsFunc(claims, func(other Claim) bool { return takesPrecedence(own, other) }); found != want && len(lost.CIDRs) == 0 {
				t.Fatalf("%v: %v is contested: %v, want %v", claims, own, found, want)
			}
		}
	}
}

func takesPrecedence(other, own Claim) bool {
	a, errA := clustersetip.ParseCIDRs(other.CIDRs)
	b, errB := clustersetip.ParseCIDRs(own.CIDRs)
	_, _, overlap := clustersetip.Overlap(a, b)
	first := other.ClaimedAt.Before(own.ClaimedAt) || other.ClaimedAt.Equal(own.ClaimedAt) && other.Cluster < own.Cluster
	switch {
	case other.Relayed() != own.Relayed(): // R288
		first = own.Relayed()
	case other.Hub != own.Hub: // R278
		first = other.HubClaimedAt.Before(own.HubClaimedAt) || other.HubClaimedAt.Equal(own.HubClaimedAt) && other.Hub < own.Hub
	}
	return errA == nil && errB == nil && overlap && first && other.Cluster != own.Cluster
}

// R278: the conditions of two relayed clusters whose allocation CIDRs overlap name both as
// relayed, and say what to do.
func TestConflictOfRelayedClustersIsReportedForBoth(t *testing.T) {
	now := time.Now()
	first := Claim{Cluster: "x", ClaimedAt: now, CIDRs: []string{"243.1.0.0/16"}, Hub: "g", HubClaimedAt: now.Add(-time.Hour)}
	second := Claim{Cluster: "y", ClaimedAt: now.Add(-24 * time.Hour), CIDRs: []string{"243.1.1.0/24"}, Hub: "h", HubClaimedAt: now}
	direct := Claim{Cluster: "b", ClaimedAt: now, CIDRs: []string{"243.2.0.0/16"}}
	third := Claim{Cluster: "z", CIDRs: []string{"243.2.1.0/24"}, Hub: "h", HubClaimedAt: now}
	conflicts := NewConflicts([]Claim{first, second, direct, third})
	const secret = "create a member Secret with the right allocation-cidrs for the relayed cluster in this cluster"
	for _, test := range []struct {
		claim  Claim
		status metav1.ConditionStatus
		reason string
		parts  []string
	}{
		{first, metav1.ConditionTrue, "Contested", []string{
			`243.1.0.0/16 of cluster "x" (relayed by hub "g") are used, but 243.1.1.0/24 of cluster "y" (relayed by hub "h") overlap and are not`, `correct hub "g" or "h"`, secret}},
		{second, metav1.ConditionFalse, "Overlaps", []string{
			`243.1.1.0/24 of cluster "y" (relayed by hub "h") overlap 243.1.0.0/16 of cluster "x" (relayed by hub "g"), which takes precedence`, `correct hub "g" or "h"`, secret}},
		{direct, metav1.ConditionTrue, "Allocates", nil},
		{third, metav1.ConditionFalse, "Overlaps", []string{`(relayed by hub "h") overlap 243.2.0.0/16 of cluster "b", which takes precedence because it is not relayed`, `correct hub "h", or`, secret}},
	} {
		condition := Condition(test.claim, conflicts.Of(test.claim.Cluster), "")
		if condition.Status != test.status || condition.Reason != test.reason {
			t.Errorf("%s: %+v, want %s/%s", test.claim.Cluster, condition, test.status, test.reason)
		}
		for _, part := range test.parts {
			if !strings.Contains(condition.Message, part) {
				t.Errorf("%s: %q is missing in %q", test.claim.Cluster, part, condition.Message)
			}
		}
	}
}

// R298: what the message advises results in a valid Secret.
func TestAdviceForARefusedClaimDependsOnTheSecret(t *testing.T) {
	claim := Claim{Cluster: "b", CIDRs: []string{"243.1.0.0/16"}}
	for want, assigned := range map[string][]netip.Prefix{
		"if it should have them, add them to allocation-cidrs in the member Secret":                 {netip.MustParsePrefix("243.2.0.0/16")},
		`if it should have them, replace "none" with them in allocation-cidrs in the member Secret`: {},
	} {
		if message := Unassigned(claim, assigned); !strings.Contains(message, want) {
			t.Errorf("%v: got %q, want %q in it", assigned, message, want)
		}
	}
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
	allocations := Conflicts{}.Usable([]Claim{{Cluster: "a", CIDRs: []string{"243.1.0.0/16"}}}) // the refused claim is none
	for ip, want := range map[string]bool{"243.1.0.1": false, "243.2.0.1": true, "243.3.0.1": true} {
		if got := allocations.Believes(clustersetip.NewDecision("b", []string{ip}, time.Time{})); got != want {
			t.Errorf("%s is believed: %t, want %t", ip, got, want)
		}
	}
}

// The flag is one of mcs-apiserver, and not of the command that shows the condition.
func TestAdviceForOverlappingCIDRs(t *testing.T) {
	own, older := Claim{Cluster: "west", CIDRs: []string{"243.1.0.0/16"}}, Claim{Cluster: "east", CIDRs: []string{"243.1.0.0/16"}}
	message := Condition(own, Conflict{Lost: &older}, "").Message
	for _, want := range []string{
		`choose another CIDR in cluster "west", with ` + "`kubectl patch clusterclaim clusterset-ip-cidr.mcs-apiserver.io --type=merge -p '{\"spec\":{\"value\":\"CIDR\"}}'`",
		"the flag --clusterset-ip-cidr of mcs-apiserver",
	} {
		if !strings.Contains(message, want) {
			t.Errorf("%q is missing in %q", want, message)
		}
	}
}
