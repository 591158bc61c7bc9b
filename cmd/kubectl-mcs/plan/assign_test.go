// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func within(ranges ...string) func(*Cluster) { return func(c *Cluster) { c.Ranges = ranges } }

// owns sets allocation CIDRs that the cluster claims, started those of a flag of
// mcs-apiserver.
func owns(cidrs ...string) func(*Cluster) {
	return func(c *Cluster) { c.CIDRs, c.Claimed = cidrs, cidrs }
}
func started(cidrs ...string) func(*Cluster) { return func(c *Cluster) { c.CIDRs = cidrs } }

func taken(uid types.UID, cidrs ...string) func(*Cluster) {
	return func(c *Cluster) {
		if c.Taken == nil {
			c.Taken = map[types.UID][]string{}
		}
		c.Taken[uid] = cidrs
	}
}

// unlisted makes a cluster without an ID: only its claim is known.
func unlisted(claimed ...string) func(*Cluster) {
	return func(c *Cluster) { c.Unlisted, c.ID, c.Claimed = true, "", claimed }
}

// R127: a cluster without an allocation CIDR is assigned one that is not in use.
func TestAllocationCIDRsAreAssigned(t *testing.T) {
	ipv4 := within("243.0.0.0/8")
	for _, test := range []struct {
		name     string
		clusters []Cluster
		want     []string
		warnings []string
	}{
		{
			name: "free CIDR",
			clusters: []Cluster{
				newCluster("east", in("set"), ipv4, owns("243.1.0.0/16"), taken("uid-east", "243.1.0.0/16"), taken("uid-x", "243.2.0.0/16")),
				newCluster("west", ipv4), newCluster("north", within("243.0.0.0/8", "fd00:243::/64")), newCluster("disabled"),
			},
			want: []string{"west AssignCIDRs 243.3.0.0/16", "north AssignCIDRs 243.4.0.0/16,fd00:243::1:0/112"},
		},
		{ // R247
			name: "CIDR of a cluster that left, in which services have IPs",
			clusters: []Cluster{
				newCluster("east", in("set"), ipv4, owns("243.1.0.0/16"), func(c *Cluster) {
					c.SharedIPs = map[string]string{"243.1.0.7": "east", "243.2.0.9": "east", "fd00:243::1:1": "east"}
				}),
				newCluster("west", within("243.0.0.0/8", "fd00:243::/64")),
			},
			want: []string{"west AssignCIDRs 243.3.0.0/16,fd00:243::2:0/112"},
		},
		{
			name: "CIDR of a cluster that is named later", clusters: []Cluster{newCluster("a", ipv4), newCluster("b", ipv4, owns("243.1.0.0/16"))},
			want: []string{"a AssignCIDRs 243.2.0.0/16"},
		},
		{
			name:     "joining again after the CIDR was assigned to another cluster",
			clusters: []Cluster{newCluster("back", ipv4, owns("243.2.0.0/16")), newCluster("east", in("set"), ipv4, owns("243.1.0.0/16"), taken("uid-x", "243.2.0.0/16"))},
			want:     []string{"back AssignCIDRs 243.3.0.0/16"},
		},
		{
			name:     "joining again while members still know the cluster",
			clusters: []Cluster{newCluster("back", ipv4, owns("243.2.0.0/16")), newCluster("east", in("set"), ipv4, owns("243.1.0.0/16"), taken("uid-back", "243.2.0.0/16"))},
		},
		{
			name: "first of two clusters keeps the same CIDR", clusters: []Cluster{newCluster("a", ipv4, owns("243.1.0.0/16")), newCluster("b", ipv4, owns("243.1.0.0/16"))},
			want: []string{"b AssignCIDRs 243.2.0.0/16"},
		},
		{
			name: "members keep their CIDRs", clusters: []Cluster{newCluster("a", in("set"), ipv4, owns("243.1.0.0/16")), newCluster("b", in("set"), ipv4, started("243.1.0.0/16"))},
		},
		{
			name: "CIDR of a flag", clusters: []Cluster{newCluster("a", ipv4), newCluster("b", ipv4, started("243.1.0.0/16"))},
			want: []string{"a AssignCIDRs 243.2.0.0/16"},
		},
		{
			name: "non-canonical and invalid CIDRs",
			clusters: []Cluster{
				newCluster("east", in("set"), ipv4, owns("243.1.0.0/16"), taken("uid-x", "nonsense", "243.2.0.1/16"), taken("uid-y", "::ffff:243.3.0.0/112")),
				newCluster("west", in("set"), ipv4, owns("243.4.0.0/16"), taken("uid-x", "nonsense")), newCluster("north", ipv4),
			},
			want:     []string{"north AssignCIDRs 243.5.0.0/16"},
			warnings: []string{`context "east": ignoring invalid allocation CIDR "nonsense" of a member`},
		},
		{ // A member cannot prevent others from joining.
			name: "CIDRs outside of the range",
			clusters: []Cluster{
				newCluster("east", in("set"), ipv4, owns("243.1.0.0/16"), taken("uid-x", "0.0.0.0/0", "243.2.0.0/16"), taken("uid-y", "242.0.0.0/7")),
				newCluster("mallory", in("set"), within("0.0.0.0/0"), owns("0.0.0.0/0")),
				newCluster("west", ipv4), newCluster("north", ipv4, started("243.9.0.0/16")),
			},
			want: []string{"west AssignCIDRs 243.3.0.0/16"},
		},
		{
			name: "recorded CIDRs, also of a member that is not connected",
			clusters: []Cluster{
				newCluster("east", in("set"), ipv4, owns("243.1.0.0/16"), records("x", "243.2.0.0/16"), records("y", "none"), records("back", "243.3.0.0/16")),
				newCluster("west", ipv4), newCluster("back", ipv4, owns("243.3.0.0/16")), newCluster("twin", ipv4, owns("243.2.0.0/16")),
			},
			want: []string{"west AssignCIDRs 243.4.0.0/16", "twin AssignCIDRs 243.5.0.0/16"},
		},
		{ // R298: only the cluster itself may keep what it is said to have.
			name: "CIDRs that a member is said to have, which is among the clusters",
			clusters: []Cluster{
				newCluster("east", in("set"), ipv4, owns("243.1.0.0/16"), taken("uid-hub", "243.2.0.0/16"), taken("uid-back", "243.3.0.0/16")),
				newCluster("hub", in("set"), ipv4, owns("243.9.0.0/16"), taken("uid-east", "243.4.0.0/16")),
				newCluster("back", ipv4, owns("243.3.0.0/16")), newCluster("twin", ipv4, owns("243.2.0.0/16")), newCluster("west", ipv4, owns("243.4.0.0/16")),
			},
			want: []string{"twin AssignCIDRs 243.5.0.0/16", "west AssignCIDRs 243.6.0.0/16"},
		},
		{ // R298
			name: "CIDRs that were recorded for two clusters whose UID is unknown",
			clusters: []Cluster{
				newCluster("east", in("set"), ipv4, owns("243.1.0.0/16"), records("x", "243.2.0.0/16"), records("y", "243.3.0.0/16")), newCluster("west", ipv4),
			},
			want: []string{"west AssignCIDRs 243.4.0.0/16"},
		},
		{
			name: "no ID: ranges of the other clusters", clusters: []Cluster{newCluster("new", unlisted()), newCluster("disabled"), newCluster("east", ipv4, owns("243.1.0.0/16"))},
			want: []string{"new AssignCIDRs 243.2.0.0/16"},
		},
		{
			name: "no ID: claimed CIDR", clusters: []Cluster{newCluster("new", unlisted("243.1.0.0/16")), newCluster("east", ipv4)},
			want: []string{"east AssignCIDRs 243.2.0.0/16"},
		},
		{
			name: "no ID and no ranges", clusters: []Cluster{newCluster("new", unlisted()), newCluster("east")},
		},
		{
			name: "no cluster has an ID", clusters: []Cluster{newCluster("new", unlisted()), newCluster("old", unlisted("243.1.0.0/16"))},
			warnings: []string{`context "new": no allocation CIDR is assigned, because the ClusterSet IP range is not known yet: run join again when the cluster has joined`},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			planned, warnings, err := assignCIDRs(test.clusters)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, steps(Plan{Steps: planned})); diff != "" {
				t.Errorf("unexpected steps (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.warnings, warnings); diff != "" {
				t.Errorf("unexpected warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAllocationCIDRErrors(t *testing.T) {
	for _, test := range []struct {
		name     string
		clusters []Cluster
		want     []string
	}{
		{
			"exhausted range", []Cluster{newCluster("west", within("243.0.0.0/16")), newCluster("east", in("set"), within("243.0.0.0/16"), owns("243.0.0.0/16"))},
			[]string{`context "west": no unused /16 in ClusterSet IP range 243.0.0.0/16`},
		},
		{ // R127: who takes it away is named
			"range full of IPs that nobody allocated", []Cluster{
				newCluster("west", within("243.0.0.0/14")),
				newCluster("east", in("set"), within("243.0.0.0/14"), owns("243.1.0.0/16"), func(c *Cluster) {
					c.SharedIPs = map[string]string{"243.1.0.7": "east", "243.0.0.1": "x", "243.2.0.1": "x", "243.3.0.1": "x", "243.3.0.2": "left"}
				}),
			},
			[]string{`no unused /16 in ClusterSet IP range 243.0.0.0/14; choose a smaller unused CIDR, or add a range; services of cluster "x" have 3 shared ClusterSet IPs that no cluster could have allocated, such as 243.0.0.1: withdraw them, or expel the cluster if you do not trust it`},
		},
		{
			// A claim would not take effect.
			"CIDR of a flag is in use",
			[]Cluster{
				newCluster("a", within("243.0.0.0/8"), started("243.1.0.0/16")), newCluster("b", within("243.0.0.0/8"), started("243.1.2.0/24"), func(c *Cluster) { c.Claimed = []string{"243.9.0.0/16"} }),
				newCluster("c", in("set"), within("243.0.0.0/8"), owns("243.1.0.0/16")),
			},
			[]string{
				`context "a": allocation CIDR 243.1.0.0/16 overlaps 243.1.0.0/16 of another cluster: change the flag --clusterset-ip-cidr of mcs-apiserver, which takes precedence over the claim`,
				`context "b": allocation CIDR 243.1.2.0/24 overlaps 243.1.0.0/16 of another cluster`,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, err := Join("set", test.clusters, nil)
			if err == nil || len(plan.Steps) > 0 {
				t.Fatalf("got plan %q, want an error", steps(plan))
			}
			if problems := strings.Split(err.Error(), "\n"); len(problems) != len(test.want) {
				t.Errorf("got %d problems, want %d: %v", len(problems), len(test.want), err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("problem %q is missing in %v", want, err)
				}
			}
		})
	}
}

// Warnings of the assignment are part of the plan.
func TestJoinWarnsAboutInvalidAllocationCIDRs(t *testing.T) {
	plan, err := Join("production", []Cluster{with(member("east", "west"), taken("uid-x", "nonsense")), member("west", "east")}, nil)
	if err != nil || len(plan.Warnings) != 1 || !strings.Contains(plan.Warnings[0], `"nonsense"`) {
		t.Errorf("got warnings %q and error %v", plan.Warnings, err)
	}
}
