// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// R335: allowed CIDRs are written for the clusters that the user names, to all others, and
// nothing is changed without being asked for.
func TestAllowedCIDRsAreWrittenIfTheyAreGiven(t *testing.T) {
	member := func(id, cidrs string) func(*Cluster) {
		return func(c *Cluster) {
			c.Members[id] = Member{Access: accessOf(id), JoinedAt: joinedAt, AllocationCIDRs: "none", AllowedCIDRs: cidrs}
		}
	}
	given := func(cidrs string) func(*Cluster) { return func(c *Cluster) { c.AllowedCIDRs = cidrs } }
	for name, test := range map[string]struct {
		east, west func(*Cluster)
		given      string
		want       []string
		notes      int
	}{
		"new":                           {member("west", ""), member("east", "10.100.0.0/16"), "10.101.0.0/16", []string{"allow endpoints of west in 10.101.0.0/16"}, 0},
		"changed":                       {member("west", "10.9.0.0/16"), member("east", "10.100.0.0/16"), "10.101.0.0/16", []string{"allow endpoints of west in 10.101.0.0/16 instead of 10.9.0.0/16"}, 0},
		"the same, written another way": {member("west", "fd00::/48, 10.101.3.0/16"), member("east", "10.100.0.0/16"), "10.101.0.0/16,fd00::/48", nil, 0},
		"different, but not given":      {member("west", "10.9.0.0/16"), member("east", "10.100.0.0/16"), "", nil, 0},
		"neither":                       {member("west", ""), member("east", "10.100.0.0/16"), "", nil, 1},
		"of another cluster":            {member("west", ""), member("east", ""), "10.101.0.0/16", []string{"allow endpoints of west in 10.101.0.0/16"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := Join("set", []Cluster{newCluster("east", in("set"), grants("west"), test.east), newCluster("west", in("set"), grants("east"), test.west, given(test.given))}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var steps []string
			for _, step := range plan.Steps {
				if step.Action != WaitForMembers {
					steps = append(steps, step.String())
				}
			}
			if diff := cmp.Diff(test.want, steps); diff != "" {
				t.Error(diff)
			}
			if len(plan.Notes) != test.notes {
				t.Errorf("notes are %q", plan.Notes)
			}
		})
	}
}

// R335: the note says what is missing where, and the command that sets it, with all that the user gave.
func TestMembersThatCannotBeAskedAreNoted(t *testing.T) {
	given := func(c *Cluster) { c.Flags = []string{"--server east=https://10.0.0.1:6443", "--output-dir clusters"} }
	plan, err := Join("set", []Cluster{newCluster("east", given), newCluster("west", named("west"))}, map[string]string{"west": "w"})
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Notes) != 1 {
		t.Fatalf("notes are %q", plan.Notes)
	}
	for _, want := range []string{"no allowed-cidrs of east (in west), w (in east)", "withdrawn after its TTL", "`kubectl mcs join --clusterset set east west --server east=https://10.0.0.1:6443 --output-dir clusters --id west=w --allowed-cidrs east=CIDR,... --allowed-cidrs west=CIDR,...`"} {
		if !strings.Contains(plan.Notes[0], want) {
			t.Errorf("note %q lacks %q", plan.Notes[0], want)
		}
	}
}

// R335: Pod CIDRs that are not allowed are a likely mistake.
func TestPodCIDRsThatAreNotAllowedAreWarnedAbout(t *testing.T) {
	for name, test := range map[string]struct {
		pods    []string
		allowed string
		want    bool
	}{
		"inside":      {[]string{"10.101.1.0/24", "fd00:101:0:1::/64"}, "10.101.0.0/16,fd00:101::/48", false},
		"outside":     {[]string{"10.101.1.0/24", "10.102.1.0/24"}, "10.101.0.0/16", true},
		"larger":      {[]string{"10.0.0.0/8"}, "10.101.0.0/16", true},
		"not given":   {[]string{"10.101.1.0/24"}, "", false},
		"not known":   {nil, "10.101.0.0/16", false},
		"nothing new": {[]string{"10.101.0.0/16"}, "10.101.0.0/16", false},
	} {
		_, warnings := allowCIDRs([]Cluster{newCluster("west", func(c *Cluster) { c.PodCIDRs, c.AllowedCIDRs = test.pods, test.allowed })})
		if len(warnings) > 0 != test.want {
			t.Errorf("%s: warnings are %q", name, warnings)
		}
	}
}
