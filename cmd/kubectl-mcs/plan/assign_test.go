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

// owns is a part that the cluster claims, and started is one that it was started with.
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

// unlisted has no id, so that it does not say what it has, only what it claims.
func unlisted(claimed ...string) func(*Cluster) {
	return func(c *Cluster) { c.Unlisted, c.ID, c.Claimed = true, "", claimed }
}

// R127: a cluster without a part of the addresses for one IP in all clusters gets
// one that nobody has.
func TestClustersWithoutAPartOfTheIPsGetOne(t *testing.T) {
	ipv4 := within("243.0.0.0/8")
	for _, test := range []struct {
		name     string
		clusters []Cluster
		want     []string
		warnings []string
	}{
		{
			name: "one that nobody has",
			clusters: []Cluster{
				found("east", in("set"), ipv4, owns("243.1.0.0/16"), taken("uid-east", "243.1.0.0/16"), taken("uid-x", "243.2.0.0/16")),
				found("west", ipv4), found("north", within("243.0.0.0/8", "fd00:243::/64")), found("without such IPs"),
			},
			want: []string{"west AssignIPs 243.3.0.0/16", "north AssignIPs 243.4.0.0/16,fd00:243::1:0/112"},
		},
		{
			name: "not that of one that is named after it", clusters: []Cluster{found("a", ipv4), found("b", ipv4, owns("243.1.0.0/16"))},
			want: []string{"a AssignIPs 243.2.0.0/16"},
		},
		{
			name:     "back after somebody else was given its part",
			clusters: []Cluster{found("back", ipv4, owns("243.2.0.0/16")), found("east", in("set"), ipv4, owns("243.1.0.0/16"), taken("uid-x", "243.2.0.0/16"))},
			want:     []string{"back AssignIPs 243.3.0.0/16"},
		},
		{
			name:     "back, and members still know it",
			clusters: []Cluster{found("back", ipv4, owns("243.2.0.0/16")), found("east", in("set"), ipv4, owns("243.1.0.0/16"), taken("uid-back", "243.2.0.0/16"))},
		},
		{
			name: "of two with the same the first keeps it", clusters: []Cluster{found("a", ipv4, owns("243.1.0.0/16")), found("b", ipv4, owns("243.1.0.0/16"))},
			want: []string{"b AssignIPs 243.2.0.0/16"},
		},
		{
			name: "members keep what they have", clusters: []Cluster{found("a", in("set"), ipv4, owns("243.1.0.0/16")), found("b", in("set"), ipv4, started("243.1.0.0/16"))},
		},
		{
			name: "what it was started with, if nobody else has it", clusters: []Cluster{found("a", ipv4), found("b", ipv4, started("243.1.0.0/16"))},
			want: []string{"a AssignIPs 243.2.0.0/16"},
		},
		{
			name: "parts that are not written as they should be",
			clusters: []Cluster{
				found("east", in("set"), ipv4, owns("243.1.0.0/16"), taken("uid-x", "nonsense", "243.2.0.1/16"), taken("uid-y", "::ffff:243.3.0.0/112")),
				found("west", in("set"), ipv4, owns("243.4.0.0/16"), taken("uid-x", "nonsense")), found("north", ipv4),
			},
			want:     []string{"north AssignIPs 243.5.0.0/16"},
			warnings: []string{`context east knows of "nonsense" as a part of the IPs that are the same in all clusters, which is no CIDR: it is not taken into account`},
		},
		{
			name: "without an id, the ranges of the others", clusters: []Cluster{found("new", unlisted()), found("without such IPs"), found("east", ipv4, owns("243.1.0.0/16"))},
			want: []string{"new AssignIPs 243.2.0.0/16"},
		},
		{
			name: "without an id, what it claims", clusters: []Cluster{found("new", unlisted("243.1.0.0/16")), found("east", ipv4)},
			want: []string{"east AssignIPs 243.2.0.0/16"},
		},
		{
			name: "without an id, where nobody has such IPs", clusters: []Cluster{found("new", unlisted()), found("east")},
		},
		{
			name: "nobody has an id", clusters: []Cluster{found("new", unlisted()), found("old", unlisted("243.1.0.0/16"))},
			warnings: []string{"context new: it is not known yet where IPs may be that are the same in all clusters, so that it gets no part of them: repeat join when it has joined"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			planned, warnings, err := assign(test.clusters)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, steps(Plan{Steps: planned})); diff != "" {
				t.Errorf("want (-), got (+): %s", diff)
			}
			if diff := cmp.Diff(test.warnings, warnings); diff != "" {
				t.Errorf("warnings, want (-), got (+): %s", diff)
			}
		})
	}
}

func TestPartsThatCannotBeHadAreRefusedWithTheRemedy(t *testing.T) {
	for _, test := range []struct {
		name     string
		clusters []Cluster
		want     []string
	}{
		{
			"a range that is full", []Cluster{found("west", within("243.0.0.0/16")), found("east", in("set"), within("243.0.0.0/16"), owns("243.0.0.0/16"))},
			[]string{"context west: no unused /16 in ClusterSet IP range 243.0.0.0/16"},
		},
		{
			// A claim would have no effect.
			"what it was started with is taken",
			[]Cluster{
				found("a", within("243.0.0.0/8"), started("243.1.0.0/16")), found("b", within("243.0.0.0/8"), started("243.1.2.0/24"), func(c *Cluster) { c.Claimed = []string{"243.9.0.0/16"} }),
				found("c", in("set"), within("243.0.0.0/8"), owns("243.1.0.0/16")),
			},
			[]string{
				"context a: its part of the IPs that are the same in all clusters, 243.1.0.0/16, overlaps 243.1.0.0/16, which another cluster has; it comes from the flag --clusterset-ip-cidr of mcs-apiserver, which counts more than a claim: change the flag",
				"context b: its part of the IPs that are the same in all clusters, 243.1.2.0/24, overlaps 243.1.0.0/16, which another cluster has",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, err := Join("set", test.clusters, nil)
			if err == nil || len(plan.Steps) > 0 {
				t.Fatalf("planned %q", steps(plan))
			}
			if problems := strings.Split(err.Error(), "\n"); len(problems) != len(test.want) {
				t.Errorf("%d problems, want %d: %v", len(problems), len(test.want), err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in %v", want, err)
				}
			}
		})
	}
}

// What assigning could not take into account is part of the plan.
func TestPartsThatCannotBeReadAreWarnedOf(t *testing.T) {
	plan, err := Join("production", []Cluster{with(member("east", "west"), taken("uid-x", "nonsense")), member("west", "east")}, nil)
	if err != nil || len(plan.Warnings) != 1 || !strings.Contains(plan.Warnings[0], `"nonsense"`) {
		t.Errorf("warnings %q, %v", plan.Warnings, err)
	}
}
