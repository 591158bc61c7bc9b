// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
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

// lets lets east relay others.
func lets(relay string) func(*Cluster) {
	return func(c *Cluster) {
		allowed := c.Members["east"]
		allowed.RelayFor = relay
		c.Members["east"] = allowed
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
		{Context: "west", Action: AllowCIDRs, Value: "10.1.0.0/16,10.3.0.0/16", Peers: []string{"east"}}, {Context: "north", Action: AllowCIDRs, Value: "10.1.0.0/16,10.2.0.0/16", Peers: []string{"east"}},
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
	east, west, north := with(member("east", "west", "north"), hub, relaysTo("west"), relaysTo("north")), with(member("west", "east"), lets("north")), with(member("north", "east"), lets("*"))
	recordNone([]Cluster{east, west, north})
	planned, err := Join("production", []Cluster{east, west, north}, nil)
	if err != nil || len(planned.Steps) > 0 || len(planned.Warnings) > 0 {
		t.Errorf("got plan %+v, %v", planned, err)
	}
	planned, err = Join("production", []Cluster{east, with(west, lets("north, far")), north, newCluster("south", knows("x", types.UID("x")))}, nil)
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

// R424: what the Secret of a hub allows holds for all clusters that it relays, so it has the
// CIDRs of all of them, or it stays as it is.
func TestAllowedCIDRsOfHub(t *testing.T) {
	in := func(cidrs string) func(*Cluster) {
		return func(c *Cluster) {
			allowed := c.Members["east"]
			allowed.AllowedCIDRs = cidrs
			c.Members["east"] = allowed
		}
	}
	for _, test := range []struct {
		name              string
		hub               bool
		relay, before     string
		east, west, north string
		// want is what west allows east.
		want    string
		warning string
	}{
		{name: "all", hub: true, relay: "north", east: "10.1.0.0/16", west: "10.2.0.0/16", north: "10.3.0.0/16", want: "10.1.0.0/16,10.3.0.0/16"},
		{name: "the same", hub: true, relay: "north", before: "10.3.0.0/16,10.1.0.0/16", east: "10.1.0.0/16", north: "10.3.0.0/16"},
		{name: "replaced", hub: true, relay: "north", before: "10.9.0.0/16", east: "10.1.0.0/16", north: "10.3.0.0/16", want: "10.1.0.0/16,10.3.0.0/16"},
		{name: "of the hub only", hub: true, relay: "north", east: "10.1.0.0/16", warning: `context "west": hub "east" gets no allowed-cidrs, because those of north are not known`},
		{name: "of a relayed cluster only", hub: true, relay: "north", before: "10.1.0.0/16", north: "10.3.0.0/16", want: "10.1.0.0/16,10.3.0.0/16"},
		{name: "a cluster is added", hub: true, before: "10.1.0.0/16", warning: `context "west": endpoints of north, which hub "east" relays, are refused if they are not in 10.1.0.0/16`},
		{name: "relays others", hub: true, relay: "north,far", east: "10.1.0.0/16", north: "10.3.0.0/16", warning: "because those of far are not known"},
		{name: "relays others, within", hub: true, relay: "north,far", before: "10.9.0.0/16", east: "10.1.0.0/16", north: "10.3.0.0/16", want: "10.9.0.0/16,10.1.0.0/16,10.3.0.0/16"},
		{name: "relays everything", hub: true, relay: "*", east: "10.1.0.0/16", north: "10.3.0.0/16", warning: "because those of * are not known"},
		{name: "relays everything, within", hub: true, relay: "*", before: "10.9.0.0/16", north: "10.3.0.0/16", want: "10.9.0.0/16,10.3.0.0/16"},
		{name: "joined without the flag", relay: "far", east: "10.1.0.0/16", warning: "because those of far are not known"},
		{name: "joined without the flag, within", relay: "far", before: "10.9.0.0/16", east: "10.1.0.0/16", want: "10.9.0.0/16,10.1.0.0/16"},
	} {
		t.Run(test.name, func(t *testing.T) {
			west := with(member("west", "east", "north"), lets(test.relay), in(test.before), allows(test.west))
			delete(west.Known, "north")
			clusters := []Cluster{
				with(member("east", "west", "north"), func(c *Cluster) { c.Hub = test.hub }, allows(test.east)), west, with(member("north", "east", "west"), allows(test.north)),
			}
			planned, err := Join("production", clusters, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := planned.value(west, AllowCIDRs, "east"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			var warnings []string
			for _, warning := range planned.Warnings {
				if strings.HasPrefix(warning, `context "west": `) {
					warnings = append(warnings, warning)
				}
			}
			if got := strings.Join(warnings, "\n"); (got == "") != (test.warning == "") || !strings.Contains(got, test.warning) {
				t.Errorf("got warnings %q, want %q", got, test.warning)
			}
		})
	}
}

// R424, R335: the command of the note makes no other members.
func TestNoteOfHub(t *testing.T) {
	clusters := []Cluster{newCluster("west", allows("10.2.0.0/16")), newCluster("east", hub), newCluster("north")}
	planned, err := Join("production", clusters, nil)
	if err != nil {
		t.Fatal(err)
	}
	const command = "`kubectl mcs join --clusterset production west east north --hub east --allowed-cidrs west=10.2.0.0/16 --allowed-cidrs east=CIDR,... --allowed-cidrs north=CIDR,...`"
	if len(planned.Notes) != 1 || !strings.Contains(planned.Notes[0], "no allowed-cidrs of east (in west, north), north (in east)") || !strings.Contains(planned.Notes[0], command) {
		t.Errorf("got notes %q", planned.Notes)
	}
	if got := RelayDelay(planned); !strings.Contains(got, "30 seconds") {
		t.Errorf("got delay %q", got)
	}
	if planned, err = Join("production", []Cluster{newCluster("west"), newCluster("east")}, nil); err != nil || RelayDelay(planned) != "" {
		t.Errorf("got delay %q without a hub, error %v", RelayDelay(planned), err)
	}
}

// R424: a cluster that leaves can still be relayed.
func TestLeaveWithHub(t *testing.T) {
	planned, err := Leave(member("north", "east"), []Cluster{with(member("east", "west", "north"), hub), with(member("west", "east"), lets("far, north"))})
	if err != nil {
		t.Fatal(err)
	}
	const want = `in context "west", hub "east" may relay "north", also another cluster that gets this ID: remove it from relay-for in its member Secret`
	if len(planned.Warnings) != 1 || planned.Warnings[0] != want {
		t.Errorf("got warnings %q", planned.Warnings)
	}
}

// The other clusters know each other by the hub alone, unless they are members of each other or
// have another hub.
func TestLeaveOfHub(t *testing.T) {
	for name, test := range map[string]struct {
		west Cluster
		want string
	}{
		"relays two":      {with(member("west", "east"), lets("*"), knows("far", "uid-far"), knows("north", "uid-north")), "relays far, north, and"},
		"relays one":      {with(member("west", "east"), lets("north, far"), knows("north", "uid-north")), "relays north, and"},
		"direct":          {with(member("west", "east", "north"), lets("north")), ""},
		"of no other":     {with(member("west", "east"), lets("*")), ""},
		"another hub":     {with(member("west", "east", "center"), lets("*"), knows("north", "uid-north"), func(c *Cluster) { m := c.Members["center"]; m.RelayFor = "north"; c.Members["center"] = m }), ""},
		"not by this one": {with(member("west", "east"), knows("north", "uid-north")), ""},
	} {
		planned, err := Leave(member("east", "west"), []Cluster{test.west})
		if err != nil {
			t.Fatal(err)
		}
		_, forgotten, err := Forget("east", Access{}, []Cluster{with(test.west, func(c *Cluster) { c.Connected = nil })})
		if err != nil {
			t.Fatal(err)
		}
		for _, planned := range []Plan{planned, forgotten} {
			got := strings.Join(planned.Warnings, "\n")
			if test.want == "" && strings.Contains(got, "withdrawn") || !strings.Contains(got, test.want) {
				t.Errorf("%s: got warnings %q", name, got)
			}
		}
	}
}
