// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// newCluster returns a cluster outside of any ClusterSet without members. Its
// context and its ID have the same name.
func newCluster(name string, changes ...func(*Cluster)) Cluster {
	c := Cluster{
		Context: name, UID: types.UID("uid-" + name), ID: name, Access: accessOf(name),
		Members: map[string]Member{}, Known: map[string]types.UID{}, Granted: map[string]bool{},
	}
	for _, change := range changes {
		change(&c)
	}
	return c
}

const joinedAt = "2026-01-01T00:00:00Z"

func accessOf(name string) Access {
	return Access{Server: "https://" + name + ".example:6443", CA: "CA of " + name}
}

func named(id string) func(*Cluster)      { return func(c *Cluster) { c.ID = id } }
func in(set string) func(*Cluster)        { return func(c *Cluster) { c.ClusterSet = set } }
func at(server string) func(*Cluster)     { return func(c *Cluster) { c.Access.Server = server } }
func grants(id string) func(*Cluster)     { return func(c *Cluster) { c.Granted[id] = true } }
func incomplete(id string) func(*Cluster) { return func(c *Cluster) { c.Granted[id] = false } }
func has(id string) func(*Cluster) {
	return func(c *Cluster) { c.Members[id] = Member{Access: accessOf(id), JoinedAt: joinedAt} }
}
func records(id, cidrs string) func(*Cluster) {
	return func(c *Cluster) {
		recorded := c.Members[id]
		recorded.AllocationCIDRs, recorded.Secret = cidrs, types.NamespacedName{Namespace: "mcs-system", Name: "member-" + id}
		c.Members[id] = recorded
	}
}
func hasOutdated(id string) func(*Cluster) {
	return func(c *Cluster) { c.Members[id] = Member{JoinedAt: joinedAt} }
}
func rejectedBy(id string) func(*Cluster) {
	return func(c *Cluster) { c.Members[id] = Member{Access: accessOf(id), JoinedAt: joinedAt, Rejected: true} }
}
func knows(id string, uid types.UID) func(*Cluster) { return func(c *Cluster) { c.Known[id] = uid } }
func unverified(c *Cluster)                         { c.Unverified = true }

// member returns a cluster of the ClusterSet production with these peers.
func member(name string, peers ...string) Cluster {
	c := newCluster(name, in("production"))
	for _, peer := range peers {
		for _, change := range []func(*Cluster){grants(peer), has(peer), knows(peer, types.UID("uid-"+peer))} {
			change(&c)
		}
	}
	return c
}

// with returns the cluster with these changes.
func with(c Cluster, changes ...func(*Cluster)) Cluster {
	for _, change := range changes {
		change(&c)
	}
	return c
}

// recordNone makes members record that others have no allocation CIDRs, if they have none.
func recordNone(clusters []Cluster) {
	for _, c := range clusters {
		for _, peer := range clusters {
			if _, known := c.Members[peer.ID]; known && len(peer.Ranges) == 0 && len(peer.CIDRs) == 0 {
				records(peer.ID, "none")(&c)
			}
		}
	}
}

// steps abbreviates a plan: context, action, and value or peers.
func steps(plan Plan) []string {
	var lines []string
	for _, step := range plan.Steps {
		lines = append(lines, fmt.Sprintf("%s %s %s", step.Context, step.Action, step.Value+strings.Join(step.Peers, ",")))
	}
	return lines
}

func TestJoinPlan(t *testing.T) {
	for _, test := range []struct {
		name     string
		clusters []Cluster
		ids      map[string]string
		want     []string
	}{
		{
			// Access is granted before members are added, and members are added before
			// the ClusterSet is joined, so that all of them can be asked for their IDs.
			name: "three new clusters", clusters: []Cluster{newCluster("east"), newCluster("north"), newCluster("west")},
			want: []string{
				"east GrantAccess north,west", "north GrantAccess east,west", "west GrantAccess east,north",
				"east AddMembers north,west", "north AddMembers east,west", "west AddMembers east,north",
				"east JoinClusterSet production", "north JoinClusterSet production", "west JoinClusterSet production",
				"east RecordJoinTimes north,west", "north RecordJoinTimes east,west", "west RecordJoinTimes east,north",
				"east RecordCIDRs nonenorth", "east RecordCIDRs nonewest", "north RecordCIDRs noneeast",
				"north RecordCIDRs nonewest", "west RecordCIDRs noneeast", "west RecordCIDRs nonenorth",
				"east WaitForMembers north,west", "north WaitForMembers east,west", "west WaitForMembers east,north",
			},
		},
		{
			name: "IDs are set first", clusters: []Cluster{newCluster("ctx-e", named("uid-ctx-e")), newCluster("ctx-w", named(""))}, ids: map[string]string{"ctx-e": "east", "ctx-w": "west"},
			want: []string{
				"ctx-e SetClusterID east", "ctx-w SetClusterID west",
				"ctx-e GrantAccess west", "ctx-w GrantAccess east",
				"ctx-e AddMembers west", "ctx-w AddMembers east",
				"ctx-e JoinClusterSet production", "ctx-w JoinClusterSet production",
				"ctx-e RecordJoinTimes west", "ctx-w RecordJoinTimes east",
				"ctx-e RecordCIDRs nonewest", "ctx-w RecordCIDRs noneeast",
				"ctx-e WaitForMembers west", "ctx-w WaitForMembers east",
			},
		},
		{name: "already joined", clusters: []Cluster{member("east", "west"), member("west", "east")}},
		{name: "already joined with the given IDs", clusters: []Cluster{member("east", "west"), member("west", "east")}, ids: map[string]string{"east": "east"}},
		{
			name: "additional cluster", clusters: []Cluster{member("east", "west"), member("west", "east"), newCluster("north")},
			want: []string{
				"east GrantAccess north", "west GrantAccess north", "north GrantAccess east,west",
				"east AddMembers north", "west AddMembers north", "north AddMembers east,west",
				"north JoinClusterSet production",
				"east RecordJoinTimes north", "west RecordJoinTimes north", "north RecordJoinTimes east,west",
				"east RecordCIDRs nonenorth", "west RecordCIDRs nonenorth", "north RecordCIDRs noneeast", "north RecordCIDRs nonewest",
				"east WaitForMembers west,north", "west WaitForMembers east,north", "north WaitForMembers east,west",
			},
		},
		{
			name: "missing ClusterSet claim", clusters: []Cluster{with(member("east", "west"), in("")), member("west", "east")},
			want: []string{"east JoinClusterSet production", "west RecordJoinTimes east", "east WaitForMembers west", "west WaitForMembers east"},
		},
		{
			// R232: they joined with an earlier release.
			name: "unknown time of joining", clusters: []Cluster{with(member("east", "west"), func(c *Cluster) { c.Members["west"] = Member{Access: accessOf("west")} }), member("west", "east")},
			want: []string{"east RecordJoinTimes west", "east WaitForMembers west", "west WaitForMembers east"},
		},
		{
			name: "incomplete access", clusters: []Cluster{with(member("east", "west"), incomplete("west")), member("west", "east")},
			want: []string{"east GrantAccess west", "east WaitForMembers west", "west WaitForMembers east"},
		},
		{
			name: "rejected credential", clusters: []Cluster{with(member("east", "west"), rejectedBy("west")), member("west", "east")},
			want: []string{"east AddMembers west", "east WaitForMembers west", "west WaitForMembers east"},
		},
		{
			name: "changed server address", clusters: []Cluster{member("east", "west"), with(member("west", "east"), at("https://10.0.0.1"))},
			want: []string{"east AddMembers west", "east WaitForMembers west", "west WaitForMembers east"},
		},
		{
			name: "changed certificate authority", clusters: []Cluster{member("east", "west"), with(member("west", "east"), func(c *Cluster) { c.Access.CA = "new" })},
			want: []string{"east AddMembers west", "east WaitForMembers west", "west WaitForMembers east"},
		},
		{
			name: "changed server name", clusters: []Cluster{member("east", "west"), with(member("west", "east"), func(c *Cluster) { c.Access.ServerName = "w" })},
			want: []string{"east AddMembers west", "east WaitForMembers west", "west WaitForMembers east"},
		},
		{
			// A cluster must not allocate IPs before its allocation CIDR is known.
			name: "allocation CIDRs are assigned before joining", clusters: []Cluster{newCluster("east", within("243.0.0.0/8"), owns("243.1.0.0/16")), newCluster("west", within("243.0.0.0/8"))},
			want: []string{
				"east GrantAccess west", "west GrantAccess east", "east AddMembers west", "west AddMembers east",
				"west AssignCIDRs 243.2.0.0/16",
				"east JoinClusterSet production", "west JoinClusterSet production",
				"east RecordJoinTimes west", "west RecordJoinTimes east", "east RecordCIDRs 243.2.0.0/16west", "west RecordCIDRs 243.1.0.0/16east",
				"east WaitForMembers west", "west WaitForMembers east",
			},
		},
		{
			// R288: they joined with an earlier release.
			name: "unknown allocation CIDRs", clusters: []Cluster{with(member("east", "west"), owns("243.1.0.0/16")), with(member("west", "east"), owns("243.2.0.0/16"))},
			want: []string{"east RecordCIDRs 243.2.0.0/16west", "west RecordCIDRs 243.1.0.0/16east", "east WaitForMembers west", "west WaitForMembers east"},
		},
		{
			// R288: what was recorded counts, not what a cluster claims by now.
			name: "other allocation CIDRs", clusters: []Cluster{
				with(member("east", "west", "north"), owns("243.9.0.0/16"), records("west", "243.2.0.0/16"), records("north", "243.3.0.0/16")),
				with(member("west", "east", "north"), owns("243.2.0.0/16"), records("east", "243.1.0.0/16"), records("north", "243.3.0.0/16")),
				with(member("north", "east", "west"), owns("243.3.0.0/16"), records("west", "243.2.0.0/16")),
			},
			want: []string{"north RecordCIDRs 243.1.0.0/16east", "east WaitForMembers west,north", "west WaitForMembers east,north", "north WaitForMembers east,west"},
		},
		{
			// R288: it is unclear whose they are.
			name: "overlapping allocation CIDRs", clusters: []Cluster{with(member("east", "west"), owns("243.1.0.0/16")), with(member("west", "east"), owns("243.1.1.0/24"))},
		},
		{
			// R102, R107: a cluster that left can join again with another ID.
			name: "joining again with another ID", clusters: []Cluster{with(member("east"), knows("west", "uid-west")), newCluster("west")}, ids: map[string]string{"west": "west-2"},
			want: []string{
				"west SetClusterID west-2", "east GrantAccess west-2", "west GrantAccess east",
				"east AddMembers west-2", "west AddMembers east", "west JoinClusterSet production",
				"east RecordJoinTimes west-2", "west RecordJoinTimes east", "east RecordCIDRs nonewest-2", "west RecordCIDRs noneeast", "east WaitForMembers west-2", "west WaitForMembers east",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			recordNone(test.clusters)
			before := slices.Clone(test.clusters)
			plan, err := Join("production", test.clusters, test.ids)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, steps(plan)); diff != "" {
				t.Errorf("unexpected steps (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, test.clusters); diff != "" {
				t.Errorf("Join modified its input (-before +after):\n%s", diff)
			}
		})
	}
}

func TestStepsAreStructured(t *testing.T) {
	plan, err := Join("production", []Cluster{newCluster("east", named("old")), member("west", "east")}, map[string]string{"east": "east"})
	if err != nil {
		t.Fatal(err)
	}
	want := []Step{
		{Context: "east", Action: SetClusterID, Value: "east"},
		{Context: "east", Action: GrantAccess, Peers: []string{"west"}},
		{Context: "east", Action: AddMembers, Peers: []string{"west"}},
		{Context: "east", Action: JoinClusterSet, Value: "production"},
		{Context: "east", Action: RecordJoinTimes, Peers: []string{"west"}},
		{Context: "west", Action: RecordJoinTimes, Peers: []string{"east"}},
		{Context: "east", Action: RecordCIDRs, Value: "none", Peers: []string{"west"}},
		{Context: "west", Action: RecordCIDRs, Value: "none", Peers: []string{"east"}},
		{Context: "east", Action: WaitForMembers, Peers: []string{"west"}},
		{Context: "west", Action: WaitForMembers, Peers: []string{"east"}},
	}
	if diff := cmp.Diff(want, plan.Steps); diff != "" {
		t.Errorf("unexpected steps (-want +got):\n%s", diff)
	}
}

// Every step has a description of its own that names the value or the peers.
func TestStepDescriptions(t *testing.T) {
	described := map[string]Action{}
	for _, action := range []Action{SetClusterID, GrantAccess, AddMembers, AssignCIDRs, JoinClusterSet, RecordJoinTimes, RecordCIDRs, WaitForMembers, LeaveClusterSet, RemoveMembers, RevokeAccess} {
		step, about := Step{Action: action, Peers: []string{"west", "north"}}, "west, north"
		if action == SetClusterID || action == JoinClusterSet || action == LeaveClusterSet {
			step, about = Step{Action: action, Value: "it"}, `"it"`
		}
		if action == AssignCIDRs {
			step, about = Step{Action: action, Value: "243.1.0.0/16"}, "allocation CIDR 243.1.0.0/16"
		}
		text := step.String()
		if !strings.Contains(text, about) {
			t.Errorf("%s: description %q does not contain %q", action, text, about)
		}
		if other, ok := described[text]; ok || text == string(action) {
			t.Errorf("%s: description %q is not unique (also used for %q)", action, text, other)
		}
		described[text] = action
	}
}

func TestJoinErrors(t *testing.T) {
	for _, test := range []struct {
		name     string
		clusters []Cluster
		ids      map[string]string
		want     []string
	}{
		{"same cluster twice", []Cluster{newCluster("east"), newCluster("alias", func(c *Cluster) { c.UID, c.ID = "uid-east", "east" }), newCluster("west")}, nil,
			[]string{`contexts "east" and "alias" refer to the same cluster: name it once`}},
		// R99
		{"duplicate ID", []Cluster{newCluster("east", named("a")), newCluster("west", named("a"))}, nil,
			[]string{`contexts "east" and "west": both clusters have the ID "a": choose another ID with --id east=NEW_ID or --id west=NEW_ID`}},
		{"duplicate ID of a member", []Cluster{member("east"), newCluster("west", named("east"))}, nil,
			[]string{`contexts "east" and "west": both clusters have the ID "east": choose another ID with --id west=NEW_ID`}},
		{"duplicate ID of two members", []Cluster{member("east"), with(member("west"), named("east"))}, nil,
			[]string{"contexts \"east\" and \"west\": both clusters have the ID \"east\": run `kubectl mcs leave east`, and join again with --id east=NEW_ID"}},
		{"duplicate --id", []Cluster{newCluster("east"), newCluster("west")}, map[string]string{"east": "a", "west": "a"},
			[]string{`both clusters have the ID "a"`}},
		{"ID of a known member", []Cluster{with(member("east"), knows("west", "uid-x")), newCluster("west")}, nil,
			[]string{`context "west": cluster ID "west" is in use in ClusterSet "production" by a member of context "east" (UID uid-x): choose another ID with --id west=NEW_ID`}},
		{"ID that only a hub reports", []Cluster{with(member("east"), knows("west", "uid-x"), func(c *Cluster) { c.Relayed = map[string]string{"west": "hub"} }), newCluster("west")}, nil,
			[]string{"(UID uid-x, relayed by member \"hub\"): choose another ID with --id west=NEW_ID; if there is no such cluster, run `kubectl mcs expel hub --from east`"}},
		{"ID of a member that all know", []Cluster{with(member("east", "north"), knows("west", "uid-x")), with(member("north", "east"), knows("west", "uid-x")), newCluster("west")}, nil,
			[]string{`context "west": cluster ID "west" is in use in ClusterSet "production" by a member of context "east" (UID uid-x): choose another ID with --id west=NEW_ID`}},
		{"different ClusterSet", []Cluster{newCluster("east", in("staging")), newCluster("west")}, nil,
			[]string{"context \"east\": cluster is in ClusterSet \"staging\": run `kubectl mcs leave east` first"}},
		// R104
		{"new ID inside a ClusterSet", []Cluster{member("east", "west"), member("west", "east")}, map[string]string{"east": "e"},
			[]string{"context \"east\": cluster ID cannot change from \"east\" to \"e\" while the cluster is in a ClusterSet: run `kubectl mcs leave east` first"}},
		{"no ID", []Cluster{newCluster("east", named("")), newCluster("west")}, nil, []string{`context "east": cluster has no ID: set one with --id east=ID`}},
		{"no IDs", []Cluster{newCluster("east", named("")), newCluster("west", named(""))}, nil,
			[]string{`context "east": cluster has no ID: set one with --id east=ID`, `context "west": cluster has no ID: set one with --id west=ID`}},
		{"invalid ID", []Cluster{newCluster("east"), newCluster("west")}, map[string]string{"east": "East!"}, []string{`context "east": id: Invalid value: "East!": a cluster ID must be a single DNS label`}},
		// R5
		{"ID with a dot", []Cluster{newCluster("east"), newCluster("west")}, map[string]string{"east": "east.eu"}, []string{`context "east": id: Invalid value: "east.eu": a cluster ID must be a single DNS label without dots`}},
		{"http", []Cluster{newCluster("east", at("http://east.example")), newCluster("west")}, nil,
			[]string{`context "east": server "http://east.example" is not an https URL: set the address for other clusters with --server east=URL`}},
		{"no host", []Cluster{newCluster("east", at("https://")), newCluster("west")}, nil, []string{`server "https://" is not an https URL`}},
		{"no URL", []Cluster{newCluster("east", at("https://[")), newCluster("west")}, nil, []string{`server "https://[" is not an https URL`}},
		{"localhost", []Cluster{newCluster("east", at("https://localhost:6443")), newCluster("west")}, nil,
			[]string{`context "east": server "https://localhost:6443" is only reachable from this machine: set the address for other clusters with --server east=URL`}},
		{"loopback", []Cluster{newCluster("east", at("https://127.0.0.1:40123")), newCluster("west")}, nil, []string{"is only reachable from this machine"}},
		{"IPv6 loopback", []Cluster{newCluster("east", at("https://[::1]:40123")), newCluster("west")}, nil, []string{"is only reachable from this machine"}},
		{"unspecified address", []Cluster{newCluster("east", at("https://0.0.0.0:40123")), newCluster("west")}, nil, []string{"is only reachable from this machine"}},
		{"unverified server", []Cluster{newCluster("east", unverified), newCluster("west")}, nil,
			[]string{`context "east": the server's certificate is not verified: replace insecure-skip-tls-verify in the kubeconfig with certificate-authority-data`}},
		{"unverified server on localhost", []Cluster{newCluster("east", unverified, at("https://localhost")), newCluster("west")}, nil, []string{"is only reachable from this machine", "is not verified"}},
		{
			"all problems at once",
			[]Cluster{
				newCluster("east", in("staging"), at("https://127.0.0.1:6443")), newCluster("west", named("a.b"), unverified), newCluster("north", named("")),
				with(member("south"), knows("center", "uid-x")), newCluster("center", at("http://center")), newCluster("twin", named("center")), newCluster("alias", func(c *Cluster) { c.UID = "uid-east" }),
			},
			map[string]string{"east": "a"},
			[]string{
				`context "east": cluster is in ClusterSet "staging"`, `context "east": cluster ID cannot change from "east" to "a" while the cluster is in a ClusterSet`,
				`context "east": server "https://127.0.0.1:6443" is only reachable from this machine`, `context "west": id: Invalid value: "a.b"`, `context "west": the server's certificate is not verified`,
				`context "north": cluster has no ID`, `context "center": server "http://center" is not an https URL`,
				`contexts "center" and "twin": both clusters have the ID "center"`, `contexts "east" and "alias" refer to the same cluster`,
				`context "center": cluster ID "center" is in use`, `context "twin": cluster ID "center" is in use`,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, err := Join("production", test.clusters, test.ids)
			if err == nil {
				t.Fatalf("got plan %q, want an error", steps(plan))
			}
			if len(plan.Steps) > 0 {
				t.Errorf("got steps %q besides the error", steps(plan))
			}
			problems := strings.Split(err.Error(), "\n")
			if len(problems) != len(test.want) {
				t.Errorf("got %d problems, want %d:\n%v", len(problems), len(test.want), err)
			}
			for _, want := range test.want {
				if !slices.ContainsFunc(problems, func(problem string) bool { return strings.Contains(problem, want) }) {
					t.Errorf("problem %q is missing in:\n%v", want, err)
				}
			}
		})
	}
}

// R102: an ID that is only known outside of the ClusterSet, or not in use any
// more, is free.
func TestUnusedIDIsFree(t *testing.T) {
	for name, clusters := range map[string][]Cluster{
		"known outside of the ClusterSet": {newCluster("east", knows("west", "uid-x")), newCluster("west")},
		"known with the same UID":         {with(member("east"), knows("west", "uid-west")), newCluster("west")},
		"known without a UID":             {with(member("east"), knows("west", "")), newCluster("west")},
		"ID of another cluster":           {with(member("east"), knows("east", "uid-x")), newCluster("west")},
	} {
		if _, err := Join("production", clusters, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestJoinWarnsAboutUnnamedMembers(t *testing.T) {
	plan, err := Join("production", []Cluster{member("east", "west", "north", "south"), member("west", "east", "north"), newCluster("center")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`cluster "north" is a member of east, west but is not among the arguments: list all clusters of the ClusterSet, except for clusters that a hub relays`,
		`cluster "south" is a member of east but is not among the arguments: list all clusters of the ClusterSet, except for clusters that a hub relays`,
	}
	if diff := cmp.Diff(want, plan.Warnings); diff != "" {
		t.Errorf("unexpected steps (-want +got):\n%s", diff)
	}
	if plan, err = Join("production", []Cluster{member("east", "west"), member("west", "east")}, nil); err != nil || plan.Warnings != nil {
		t.Errorf("got warnings %q and error %v, want none", plan.Warnings, err)
	}
}

func TestLeavePlan(t *testing.T) {
	keeps := func(id string) string {
		return fmt.Sprintf("cluster %q is not in --from and keeps \"north\" as a member: when it is not connected any more, run `kubectl mcs leave --id north --from CONTEXT` with the context of %q", id, id)
	}
	for _, test := range []struct {
		name     string
		leaving  Cluster
		peers    []Cluster
		want     []string
		warnings []string
	}{
		{
			// R109: deleting the claim withdraws all exports, before the other clusters
			// lose access.
			name: "two peers", leaving: member("north", "east", "west"), peers: []Cluster{member("east", "north", "west"), member("west", "east", "north")},
			want: []string{
				"north LeaveClusterSet production",
				"east RemoveMembers north", "east RevokeAccess north",
				"west RemoveMembers north", "west RevokeAccess north",
				"north RemoveMembers east,west", "north RevokeAccess east,west",
			},
		},
		{
			name: "one of two peers", leaving: member("north", "east", "west"), peers: []Cluster{member("east", "north", "west")},
			want: []string{
				"north LeaveClusterSet production", "east RemoveMembers north", "east RevokeAccess north",
				"north RemoveMembers east,west", "north RevokeAccess east,west",
			},
			warnings: []string{keeps("west")},
		},
		{
			name: "no peers", leaving: member("north", "west", "east"),
			want:     []string{"north LeaveClusterSet production", "north RemoveMembers east,west", "north RevokeAccess east,west"},
			warnings: []string{keeps("east"), keeps("west")},
		},
		{
			name: "member behind a hub", leaving: with(member("north", "hub"), knows("east", "uid-east")), peers: []Cluster{member("hub", "north")},
			want: []string{
				"north LeaveClusterSet production", "hub RemoveMembers north", "hub RevokeAccess north",
				"north RemoveMembers hub", "north RevokeAccess hub",
			},
			warnings: []string{`cluster "east" knows "north" by a hub: remove "north" from relay-for of the member Secret of the hub in "east", so that the hub cannot relay another cluster with this ID`},
		},
		{
			name: "repeated after a failed step", leaving: newCluster("north", grants("west")), peers: []Cluster{newCluster("east"), newCluster("west", grants("north"))},
			want: []string{"west RevokeAccess north", "north RevokeAccess west"},
		},
		{
			name: "incomplete access", leaving: newCluster("north", incomplete("east"), hasOutdated("west")), peers: []Cluster{newCluster("east", incomplete("north")), newCluster("west")},
			want: []string{"east RevokeAccess north", "north RemoveMembers west", "north RevokeAccess east"},
		},
		{
			// R99: a cluster that could not join because its ID is in use does not
			// remove the member with that ID.
			name: "peer with another member of that ID", leaving: newCluster("other", named("north")),
			peers:    []Cluster{member("west", "north"), newCluster("east", grants("north"))},
			want:     []string{"east RevokeAccess north"},
			warnings: []string{`in context "west", member "north" is a different cluster (UID uid-north) than the one of context "other" (UID uid-other) and is not removed`},
		},
		{
			name: "peer that has not connected yet", leaving: newCluster("north"), peers: []Cluster{with(member("west", "north"), knows("north", ""))},
			want: []string{"west RemoveMembers north", "west RevokeAccess north"},
		},
		{name: "nothing to do", leaving: newCluster("north"), peers: []Cluster{member("east", "west"), member("west", "east")}},
		{name: "nothing to do without peers", leaving: newCluster("north")},
		{
			name: "only a ClusterSet claim", leaving: newCluster("north", in("production")), peers: []Cluster{member("east")},
			want: []string{"north LeaveClusterSet production"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, err := Leave(test.leaving, test.peers)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, steps(plan)); diff != "" {
				t.Errorf("unexpected steps (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.warnings, plan.Warnings); diff != "" {
				t.Errorf("unexpected warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLeaveRejectsTheLeavingClusterAsPeer(t *testing.T) {
	plan, err := Leave(member("north", "east"), []Cluster{member("east", "north"), newCluster("alias", func(c *Cluster) { c.UID = "uid-north" })})
	if err == nil || !strings.Contains(err.Error(), `context "alias" refers to the cluster that is leaving: name only the other clusters in --from`) || len(plan.Steps) > 0 {
		t.Errorf("got steps %q and error %v", steps(plan), err)
	}
}

// R134: joining clusters with overlapping Pod CIDRs causes a warning.
func TestJoinWarnsAboutOverlappingPodCIDRs(t *testing.T) {
	warnings := overlappingPodCIDRs([]Cluster{
		{Context: "e", PodCIDRs: []string{"10.0.0.0/24", "fd00::/64"}}, {Context: "w", PodCIDRs: []string{"10.0.1.0/24"}},
		{Context: "n", PodCIDRs: []string{"10.0.0.128/25"}}, {Context: "unknown"}, {Context: "odd", PodCIDRs: []string{"x"}},
	})
	if len(warnings) != 1 || !strings.Contains(warnings[0], "e (10.0.0.0/24) and n (10.0.0.128/25) overlap") {
		t.Errorf("got warnings %q", warnings)
	}
}

// connectedTo makes a member of the cluster a connected one.
func connectedTo(id string) func(*Cluster) {
	return func(c *Cluster) { c.Connected = map[string]bool{id: true} }
}

func TestForgetPlan(t *testing.T) {
	for _, test := range []struct {
		name   string
		forget string
		access Access
		peers  []Cluster
		wantID string
		want   []string
		err    string
	}{
		{
			name: "cluster without a context", forget: "north", peers: []Cluster{member("east", "north", "west"), member("west", "east", "north")}, wantID: "north",
			want: []string{"east RemoveMembers north", "east RevokeAccess north", "west RemoveMembers north", "west RevokeAccess north"},
		},
		{
			name: "remains of a cluster", forget: "north", peers: []Cluster{newCluster("east", incomplete("north")), newCluster("west")}, wantID: "north",
			want: []string{"east RevokeAccess north"},
		},
		{
			name: "invitation that was not accepted", forget: "north", peers: []Cluster{newCluster("east", in("production"), grants("north"))}, wantID: "north",
			want: []string{"east RevokeAccess north"},
		},
		{
			name: "context whose name is not the cluster ID", forget: "ctx", access: accessOf("north"), peers: []Cluster{member("east", "north")}, wantID: "north",
			want: []string{"east RemoveMembers north", "east RevokeAccess north"},
		},
		{
			name: "context whose name is the ID of another cluster", forget: "west", access: accessOf("north"), peers: []Cluster{member("east", "north", "west")}, wantID: "north",
			want: []string{"east RemoveMembers north", "east RevokeAccess north"},
		},
		{
			name: "context with another address than in the Secrets", forget: "north", access: accessOf("elsewhere"), peers: []Cluster{member("east", "north", "west")}, wantID: "north",
			want: []string{"east RemoveMembers north", "east RevokeAccess north"},
		},
		{
			name: "connected member", forget: "north", peers: []Cluster{member("east", "north"), with(member("west", "north"), connectedTo("north"))}, wantID: "north",
			err: `cluster "north" is still connected to the cluster of context "west"`,
		},
		{
			name: "different clusters with the same ID", forget: "north", wantID: "north",
			peers: []Cluster{member("south"), with(member("east", "north"), knows("north", "uid-1")), with(member("west", "north"), knows("north", "uid-2"))},
			err:   `member "north" of the cluster of context "east" (UID uid-1) and member "north" of the cluster of context "west" (UID uid-2) are different clusters`,
		},
		{
			name: "the same cluster, which one peer does not know", forget: "north", wantID: "north",
			peers: []Cluster{with(member("east", "north"), knows("north", "uid-1")), newCluster("south", incomplete("north")), with(member("west", "north"), knows("north", "uid-1"))},
			want:  []string{"east RemoveMembers north", "east RevokeAccess north", "south RevokeAccess north", "west RemoveMembers north", "west RevokeAccess north"},
		},
		{name: "unknown cluster", forget: "nroth", peers: []Cluster{member("east", "north"), member("west", "north")}, wantID: "nroth", err: `no cluster in --from (east, west) has a member "nroth"`},
		{name: "no peers", forget: "north", wantID: "north", err: `cluster "north" can only be removed from other clusters: name their contexts with --from`},
		{name: "cluster as its own peer", forget: "north", peers: []Cluster{member("north", "east")}, wantID: "north", err: `context "north" refers to the cluster "north" that is leaving`},
	} {
		t.Run(test.name, func(t *testing.T) {
			id, plan, err := Forget(test.forget, test.access, test.peers)
			if id != test.wantID {
				t.Errorf("got cluster ID %q, want %q", id, test.wantID)
			}
			if diff := cmp.Diff(test.want, steps(plan)); diff != "" {
				t.Errorf("unexpected steps (-want +got):\n%s", diff)
			}
			switch {
			case test.err == "":
				if err != nil || len(plan.Warnings) != 1 || !strings.Contains(plan.Warnings[0], `cluster "north" itself is not changed`) {
					t.Errorf("got error %v and warnings %q", err, plan.Warnings)
				}
			case err == nil || !strings.Contains(err.Error(), test.err):
				t.Errorf("got error %v, want %q", err, test.err)
			}
		})
	}
}
