// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func hub(c *Cluster) { c.Hub = true }

func relaysTo(id string) func(*Cluster) {
	return func(c *Cluster) {
		if c.Relaying == nil {
			c.Relaying = map[string]bool{}
		}
		c.Relaying[id] = true
	}
}

func lets(id, relay string) func(*Cluster) {
	return func(c *Cluster) {
		allowed := c.Members[id]
		allowed.RelayFor = relay
		c.Members[id] = allowed
	}
}

// R424: with a hub, the other clusters are members of the hub only, and read each other
// through it.
func TestJoinWithHub(t *testing.T) {
	peers := func(context string, action Action, peers ...string) Step {
		return Step{Context: context, Action: action, Peers: peers}
	}
	clusters := []Cluster{
		newCluster("east", hub, within("243.0.0.0/8"), allows("10.1.0.0/16")), newCluster("west", within("243.0.0.0/8"), allows("10.2.0.0/16")), newCluster("north", within("243.0.0.0/8"), allows("10.3.0.0/16")),
	}
	planned, err := Join("production", clusters, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Plan{Steps: []Step{
		peers("east", GrantAccess, "west", "north"), peers("west", GrantAccess, "east"), peers("north", GrantAccess, "east"),
		peers("east", GrantRelay, "west", "north"),
		peers("east", AddMembers, "west", "north"), peers("west", AddMembers, "east"), peers("north", AddMembers, "east"),
		{Context: "west", Action: AllowRelay, Value: "north", Peers: []string{"east"}}, {Context: "north", Action: AllowRelay, Value: "west", Peers: []string{"east"}},
		{Context: "east", Action: AllowCIDRs, Value: "10.2.0.0/16", Peers: []string{"west"}}, {Context: "east", Action: AllowCIDRs, Value: "10.3.0.0/16", Peers: []string{"north"}},
		{Context: "west", Action: AllowCIDRs, Value: "10.1.0.0/16", Peers: []string{"east"}}, {Context: "north", Action: AllowCIDRs, Value: "10.1.0.0/16", Peers: []string{"east"}},
		{Context: "east", Action: AssignCIDRs, Value: "243.1.0.0/16"}, {Context: "west", Action: AssignCIDRs, Value: "243.2.0.0/16"}, {Context: "north", Action: AssignCIDRs, Value: "243.3.0.0/16"},
		{Context: "east", Action: JoinClusterSet, Value: "production"}, {Context: "west", Action: JoinClusterSet, Value: "production"}, {Context: "north", Action: JoinClusterSet, Value: "production"},
		peers("east", RecordJoinTimes, "west", "north"), peers("west", RecordJoinTimes, "east"), peers("north", RecordJoinTimes, "east"),
		{Context: "east", Action: RecordCIDRs, Value: "243.2.0.0/16", Peers: []string{"west"}}, {Context: "east", Action: RecordCIDRs, Value: "243.3.0.0/16", Peers: []string{"north"}},
		{Context: "west", Action: RecordCIDRs, Value: "243.1.0.0/16", Peers: []string{"east"}}, {Context: "north", Action: RecordCIDRs, Value: "243.1.0.0/16", Peers: []string{"east"}},
		peers("east", WaitForMembers, "west", "north"), peers("west", WaitForMembers, "east"), peers("north", WaitForMembers, "east"),
	}}
	if diff := cmp.Diff(want, planned); diff != "" {
		t.Errorf("unexpected plan (-want +got):\n%s", diff)
	}

	// R422: so do files.
	for _, declaration := range Declare(planned, "production", clusters, nil, now) {
		var got []string
		for _, member := range declaration.Members {
			got = append(got, member.ID+" for "+member.RelayFor)
		}
		want := map[string][]string{"east": {"west for ", "north for "}, "west": {"east for north"}, "north": {"east for west"}}[declaration.ID]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: unexpected members (-want +got):\n%s", declaration.ID, diff)
		}
		if diff := cmp.Diff(map[string][]string{"east": {"west", "north"}}[declaration.ID], declaration.Relays); diff != "" {
			t.Errorf("%s: unexpected relays (-want +got):\n%s", declaration.ID, diff)
		}
	}
}

// R424: joining again changes nothing, and a cluster can be added. What a cluster allows to be
// relayed is kept.
func TestJoinWithHubAgain(t *testing.T) {
	east, west, north := with(member("east", "west", "north"), hub, relaysTo("west"), relaysTo("north")), with(member("west", "east"), lets("east", "north")), with(member("north", "east"), lets("east", "*"))
	recordNone([]Cluster{east, west, north})
	planned, err := Join("production", []Cluster{east, west, north}, nil)
	if err != nil || len(planned.Steps) > 0 || len(planned.Warnings) > 0 {
		t.Errorf("got plan %+v, %v", planned, err)
	}
	planned, err = Join("production", []Cluster{east, with(west, lets("east", "north, far")), north, newCluster("south", knows("x", types.UID("x")))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, step := range planned.Steps {
		if step.Action == AllowRelay || step.Action == GrantRelay {
			got = append(got, step.Context+": "+step.String())
		}
	}
	if diff := cmp.Diff([]string{"east: relay other clusters to south", "west: let east relay north,far,south", "south: let east relay west,north"}, got); diff != "" {
		t.Errorf("unexpected steps (-want +got):\n%s", diff)
	}
}
