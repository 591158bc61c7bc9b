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

// found is a cluster in no ClusterSet that knows nobody. Its context and its id
// have the same name.
func found(name string, changes ...func(*Cluster)) Cluster {
	c := Cluster{
		Context: name, UID: types.UID("uid-" + name), ID: name, Access: accessOf(name),
		Members: map[string]Member{}, Known: map[string]types.UID{}, Admitted: map[string]bool{},
	}
	for _, change := range changes {
		change(&c)
	}
	return c
}

func accessOf(name string) Access {
	return Access{Server: "https://" + name + ".example:6443", CA: "authority of " + name}
}

func named(id string) func(*Cluster)  { return func(c *Cluster) { c.ID = id } }
func in(set string) func(*Cluster)    { return func(c *Cluster) { c.ClusterSet = set } }
func at(server string) func(*Cluster) { return func(c *Cluster) { c.Access.Server = server } }
func admits(id string) func(*Cluster) { return func(c *Cluster) { c.Admitted[id] = true } }
func barely(id string) func(*Cluster) { return func(c *Cluster) { c.Admitted[id] = false } }
func has(id string) func(*Cluster) {
	return func(c *Cluster) { c.Members[id] = Member{Access: accessOf(id)} }
}
func hasOnce(id string) func(*Cluster) { return func(c *Cluster) { c.Members[id] = Member{} } }
func refusedBy(id string) func(*Cluster) {
	return func(c *Cluster) { c.Members[id] = Member{Access: accessOf(id), Refuses: true} }
}
func knows(id string, uid types.UID) func(*Cluster) { return func(c *Cluster) { c.Known[id] = uid } }
func unverified(c *Cluster)                         { c.Unverified = true }

// member is a cluster of the ClusterSet production with these peers.
func member(name string, peers ...string) Cluster {
	c := found(name, in("production"))
	for _, peer := range peers {
		for _, change := range []func(*Cluster){admits(peer), has(peer), knows(peer, types.UID("uid-"+peer))} {
			change(&c)
		}
	}
	return c
}

// with is the cluster as it is after these changes.
func with(c Cluster, changes ...func(*Cluster)) Cluster {
	for _, change := range changes {
		change(&c)
	}
	return c
}

// steps is a plan in short: where, what, and the value or whom it is about.
func steps(plan Plan) []string {
	var lines []string
	for _, step := range plan.Steps {
		lines = append(lines, fmt.Sprintf("%s %s %s", step.Context, step.Action, step.Value+strings.Join(step.Peers, ",")))
	}
	return lines
}

func TestStepsThatMakeClustersMembersOfEachOther(t *testing.T) {
	for _, test := range []struct {
		name     string
		clusters []Cluster
		ids      map[string]string
		want     []string
	}{
		{
			// Nobody looks for another before it is let in, and nobody claims the
			// ClusterSet before it knows all others, who can then be asked.
			name: "three that know nobody", clusters: []Cluster{found("east"), found("north"), found("west")},
			want: []string{
				"east Admit north,west", "north Admit east,west", "west Admit east,north",
				"east AddMembers north,west", "north AddMembers east,west", "west AddMembers east,north",
				"east Claim production", "north Claim production", "west Claim production",
				"east Await north,west", "north Await east,west", "west Await east,north",
			},
		},
		{
			name: "ids come first", clusters: []Cluster{found("ctx-e", named("uid-ctx-e")), found("ctx-w", named(""))}, ids: map[string]string{"ctx-e": "east", "ctx-w": "west"},
			want: []string{
				"ctx-e SetID east", "ctx-w SetID west",
				"ctx-e Admit west", "ctx-w Admit east",
				"ctx-e AddMembers west", "ctx-w AddMembers east",
				"ctx-e Claim production", "ctx-w Claim production",
				"ctx-e Await west", "ctx-w Await east",
			},
		},
		{name: "all is as it should be", clusters: []Cluster{member("east", "west"), member("west", "east")}},
		{name: "all is as it should be, ids included", clusters: []Cluster{member("east", "west"), member("west", "east")}, ids: map[string]string{"east": "east"}},
		{
			name: "one more", clusters: []Cluster{member("east", "west"), member("west", "east"), found("north")},
			want: []string{
				"east Admit north", "west Admit north", "north Admit east,west",
				"east AddMembers north", "west AddMembers north", "north AddMembers east,west",
				"north Claim production",
				"east Await west,north", "west Await east,north", "north Await east,west",
			},
		},
		{
			name: "only the claim is missing", clusters: []Cluster{with(member("east", "west"), in("")), member("west", "east")},
			want: []string{"east Claim production", "east Await west", "west Await east"},
		},
		{
			name: "let in by halves", clusters: []Cluster{with(member("east", "west"), barely("west")), member("west", "east")},
			want: []string{"east Admit west", "east Await west", "west Await east"},
		},
		{
			name: "a credential is refused", clusters: []Cluster{with(member("east", "west"), refusedBy("west")), member("west", "east")},
			want: []string{"east AddMembers west", "east Await west", "west Await east"},
		},
		{
			name: "a server has moved", clusters: []Cluster{member("east", "west"), with(member("west", "east"), at("https://10.0.0.1"))},
			want: []string{"east AddMembers west", "east Await west", "west Await east"},
		},
		{
			name: "a server has another authority", clusters: []Cluster{member("east", "west"), with(member("west", "east"), func(c *Cluster) { c.Access.CA = "new" })},
			want: []string{"east AddMembers west", "east Await west", "west Await east"},
		},
		{
			name: "a server has another name", clusters: []Cluster{member("east", "west"), with(member("west", "east"), func(c *Cluster) { c.Access.ServerName = "w" })},
			want: []string{"east AddMembers west", "east Await west", "west Await east"},
		},
		{
			// Nobody allocates IPs before it knows which are its own.
			name: "parts of the IPs come before the claim", clusters: []Cluster{found("east", within("243.0.0.0/8"), owns("243.1.0.0/16")), found("west", within("243.0.0.0/8"))},
			want: []string{
				"east Admit west", "west Admit east", "east AddMembers west", "west AddMembers east",
				"west AssignIPs 243.2.0.0/16",
				"east Claim production", "west Claim production", "east Await west", "west Await east",
			},
		},
		{
			// R102, R107: whoever has left may come back by another name.
			name: "back by another name", clusters: []Cluster{with(member("east"), knows("west", "uid-west")), found("west")}, ids: map[string]string{"west": "west-2"},
			want: []string{
				"west SetID west-2", "east Admit west-2", "west Admit east",
				"east AddMembers west-2", "west AddMembers east", "west Claim production", "east Await west-2", "west Await east",
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := slices.Clone(test.clusters)
			plan, err := Join("production", test.clusters, test.ids)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, steps(plan)); diff != "" {
				t.Errorf("want (-), got (+): %s", diff)
			}
			if diff := cmp.Diff(before, test.clusters); diff != "" {
				t.Errorf("what was found was changed: %s", diff)
			}
		})
	}
}

func TestStepsAreForMachinesToo(t *testing.T) {
	plan, err := Join("production", []Cluster{found("east", named("old")), member("west", "east")}, map[string]string{"east": "east"})
	if err != nil {
		t.Fatal(err)
	}
	want := []Step{
		{Context: "east", Action: SetID, Value: "east"},
		{Context: "east", Action: Admit, Peers: []string{"west"}},
		{Context: "east", Action: AddMembers, Peers: []string{"west"}},
		{Context: "east", Action: Claim, Value: "production"},
		{Context: "east", Action: Await, Peers: []string{"west"}},
		{Context: "west", Action: Await, Peers: []string{"east"}},
	}
	if diff := cmp.Diff(want, plan.Steps); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
}

// Who reads a plan sees what each step does, and about whom.
func TestStepsAreForPeopleToo(t *testing.T) {
	said := map[string]Action{}
	for _, action := range []Action{SetID, Admit, AddMembers, AssignIPs, Claim, Await, Unclaim, RemoveMembers, Expel} {
		step, about := Step{Action: action, Peers: []string{"west", "north"}}, "west, north"
		if action == SetID || action == Claim || action == Unclaim {
			step, about = Step{Action: action, Value: "it"}, `"it"`
		}
		if action == AssignIPs {
			step, about = Step{Action: action, Value: "243.1.0.0/16"}, "use 243.1.0.0/16 for IPs"
		}
		text := step.String()
		if !strings.Contains(text, about) {
			t.Errorf("%s: %q does not say that it is about %s", action, text, about)
		}
		if other, ok := said[text]; ok || text == string(action) {
			t.Errorf("%s is described as %q, as is %q", action, text, other)
		}
		said[text] = action
	}
}

func TestClustersThatCannotBeJoinedAreRefusedWithTheRemedy(t *testing.T) {
	for _, test := range []struct {
		name     string
		clusters []Cluster
		ids      map[string]string
		want     []string
	}{
		{"the same cluster twice", []Cluster{found("east"), found("alias", func(c *Cluster) { c.UID, c.ID = "uid-east", "east" }), found("west")}, nil,
			[]string{"contexts east and alias lead to the same cluster: name it once"}},
		// R99
		{"the same id twice", []Cluster{found("east", named("a")), found("west", named("a"))}, nil,
			[]string{`contexts east and west: both clusters have the id "a": choose another with --id east=ANOTHER or --id west=ANOTHER`}},
		{"the same id twice, one of them a member", []Cluster{member("east"), found("west", named("east"))}, nil,
			[]string{`contexts east and west: both clusters have the id "east": choose another with --id west=ANOTHER`}},
		{"the same id twice, both of them members", []Cluster{member("east"), with(member("west"), named("east"))}, nil,
			[]string{`contexts east and west: both clusters have the id "east": let one of them leave (kubectl mcs leave east), and join again with --id east=ANOTHER`}},
		{"the same id for two", []Cluster{found("east"), found("west")}, map[string]string{"east": "a", "west": "a"},
			[]string{`both clusters have the id "a"`}},
		{"an id that a member knows", []Cluster{with(member("east"), knows("west", "uid-x")), found("west")}, nil,
			[]string{`context west: the id "west" is taken in the ClusterSet "production" by a member of east (UID uid-x): choose another with --id west=ANOTHER`}},
		{"an id that all members know", []Cluster{with(member("east", "north"), knows("west", "uid-x")), with(member("north", "east"), knows("west", "uid-x")), found("west")}, nil,
			[]string{`context west: the id "west" is taken in the ClusterSet "production" by a member of east (UID uid-x): choose another with --id west=ANOTHER`}},
		{"another ClusterSet", []Cluster{found("east", in("staging")), found("west")}, nil,
			[]string{"context east: the cluster is in the ClusterSet \"staging\": let it leave that first, with `kubectl mcs leave east`"}},
		// R104
		{"another id in a ClusterSet", []Cluster{member("east", "west"), member("west", "east")}, map[string]string{"east": "e"},
			[]string{"context east: the cluster is in a ClusterSet as \"east\", and can become \"e\" only after it has left, with `kubectl mcs leave east`"}},
		{"no id", []Cluster{found("east", named("")), found("west")}, nil, []string{"context east: the cluster has no id: give it one with --id east=ID"}},
		{"no ids", []Cluster{found("east", named("")), found("west", named(""))}, nil,
			[]string{"context east: the cluster has no id: give it one with --id east=ID", "context west: the cluster has no id: give it one with --id west=ID"}},
		{"an id that is none", []Cluster{found("east"), found("west")}, map[string]string{"east": "East!"}, []string{`context east: id: Invalid value: "East!": a cluster ID must be a single DNS label`}},
		// R5
		{"an id with a dot", []Cluster{found("east"), found("west")}, map[string]string{"east": "east.eu"}, []string{`context east: id: Invalid value: "east.eu": a cluster ID must be a single DNS label without dots`}},
		{"http", []Cluster{found("east", at("http://east.example")), found("west")}, nil,
			[]string{`context east: its server "http://east.example" is no https URL: say where other clusters reach it with --server east=URL`}},
		{"no host", []Cluster{found("east", at("https://")), found("west")}, nil, []string{`its server "https://" is no https URL`}},
		{"no URL", []Cluster{found("east", at("https://[")), found("west")}, nil, []string{`its server "https://[" is no https URL`}},
		{"localhost", []Cluster{found("east", at("https://localhost:6443")), found("west")}, nil,
			[]string{"context east: its server https://localhost:6443 is on your machine: say where other clusters reach it with --server east=URL"}},
		{"loopback", []Cluster{found("east", at("https://127.0.0.1:40123")), found("west")}, nil, []string{"is on your machine"}},
		{"IPv6 loopback", []Cluster{found("east", at("https://[::1]:40123")), found("west")}, nil, []string{"is on your machine"}},
		{"every address", []Cluster{found("east", at("https://0.0.0.0:40123")), found("west")}, nil, []string{"is on your machine"}},
		{"a server that is not verified", []Cluster{found("east", unverified), found("west")}, nil,
			[]string{"context east: its server's certificate is not verified, so that anybody could pose as it: replace insecure-skip-tls-verify in the kubeconfig by certificate-authority-data"}},
		{"a server that is not verified, on this machine", []Cluster{found("east", unverified, at("https://localhost")), found("west")}, nil, []string{"is on your machine", "is not verified"}},
		{
			"everything at once",
			[]Cluster{
				found("east", in("staging"), at("https://127.0.0.1:6443")), found("west", named("a.b"), unverified), found("north", named("")),
				with(member("south"), knows("center", "uid-x")), found("center", at("http://center")), found("twin", named("center")), found("alias", func(c *Cluster) { c.UID = "uid-east" }),
			},
			map[string]string{"east": "a"},
			[]string{
				`context east: the cluster is in the ClusterSet "staging"`, `context east: the cluster is in a ClusterSet as "east", and can become "a" only after it has left`,
				"context east: its server https://127.0.0.1:6443 is on your machine", `context west: id: Invalid value: "a.b"`, "context west: its server's certificate is not verified",
				"context north: the cluster has no id", `context center: its server "http://center" is no https URL`,
				`contexts center and twin: both clusters have the id "center"`, "contexts east and alias lead to the same cluster",
				`context center: the id "center" is taken`, `context twin: the id "center" is taken`,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, err := Join("production", test.clusters, test.ids)
			if err == nil {
				t.Fatalf("the plan is %q", steps(plan))
			}
			if len(plan.Steps) > 0 {
				t.Errorf("there is a plan nevertheless: %q", steps(plan))
			}
			problems := strings.Split(err.Error(), "\n")
			if len(problems) != len(test.want) {
				t.Errorf("%d problems, want %d:\n%v", len(problems), len(test.want), err)
			}
			for _, want := range test.want {
				if !slices.ContainsFunc(problems, func(problem string) bool { return strings.Contains(problem, want) }) {
					t.Errorf("want %q among:\n%v", want, err)
				}
			}
		})
	}
}

// R102: an id that is taken elsewhere, or by nobody any more, is free.
func TestIDThatOthersKnowElsewhereIsFree(t *testing.T) {
	for name, clusters := range map[string][]Cluster{
		"by a cluster of no ClusterSet":      {found("east", knows("west", "uid-x")), found("west")},
		"as itself":                          {with(member("east"), knows("west", "uid-west")), found("west")},
		"without having seen it":             {with(member("east"), knows("west", "")), found("west")},
		"by itself, of the one it has to be": {with(member("east"), knows("east", "uid-x")), found("west")},
	} {
		if _, err := Join("production", clusters, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMembersThatAreNotNamedAreWarnedOf(t *testing.T) {
	plan, err := Join("production", []Cluster{member("east", "west", "north", "south"), member("west", "east", "north"), found("center")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`"north" is a member of east, west and is not named: name all clusters of the ClusterSet, unless a hub speaks for it`,
		`"south" is a member of east and is not named: name all clusters of the ClusterSet, unless a hub speaks for it`,
	}
	if diff := cmp.Diff(want, plan.Warnings); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
	if plan, err = Join("production", []Cluster{member("east", "west"), member("west", "east")}, nil); err != nil || plan.Warnings != nil {
		t.Errorf("warnings %q, %v", plan.Warnings, err)
	}
}

func TestStepsThatMakeAClusterLeave(t *testing.T) {
	const goesOn = "it goes on looking for \"north\" until its Secret and its account for it are deleted there, with `kubectl delete -n mcs-system secret/member-north serviceaccount/peer-north`"
	for _, test := range []struct {
		name     string
		leaver   Cluster
		peers    []Cluster
		want     []string
		warnings []string
	}{
		{
			// R109: removing the claim is leaving. All others are told by that, before
			// they cannot be told any more.
			name: "from two", leaver: member("north", "east", "west"), peers: []Cluster{member("east", "north", "west"), member("west", "east", "north")},
			want: []string{
				"north Unclaim production",
				"east RemoveMembers north", "east Expel north",
				"west RemoveMembers north", "west Expel north",
				"north RemoveMembers east,west", "north Expel east,west",
			},
		},
		{
			name: "from one of two", leaver: member("north", "east", "west"), peers: []Cluster{member("east", "north", "west")},
			want: []string{
				"north Unclaim production", "east RemoveMembers north", "east Expel north",
				"north RemoveMembers east,west", "north Expel east,west",
			},
			warnings: []string{`"west" is not among --from: ` + goesOn},
		},
		{
			name: "from nobody", leaver: member("north", "west", "east"),
			want:     []string{"north Unclaim production", "north RemoveMembers east,west", "north Expel east,west"},
			warnings: []string{`"east" is not among --from: ` + goesOn, `"west" is not among --from: ` + goesOn},
		},
		{
			name: "one that a hub speaks for", leaver: with(member("north", "hub"), knows("east", "uid-east")), peers: []Cluster{member("hub", "north")},
			want: []string{
				"north Unclaim production", "hub RemoveMembers north", "hub Expel north",
				"north RemoveMembers hub", "north Expel hub",
			},
			warnings: []string{`"east" is not among --from: ` + goesOn},
		},
		{
			name: "again, after a step has failed", leaver: found("north", admits("west")), peers: []Cluster{found("east"), found("west", admits("north"))},
			want: []string{"west Expel north", "north Expel west"},
		},
		{
			name: "what is let in by halves", leaver: found("north", barely("east"), hasOnce("west")), peers: []Cluster{found("east", barely("north")), found("west")},
			want: []string{"east Expel north", "north RemoveMembers west", "north Expel east"},
		},
		{
			// R99: whoever was refused because its id is taken does not take the rightful
			// member with it.
			name: "from a peer of which another cluster with its id is a member", leaver: found("other", named("north")),
			peers:    []Cluster{member("west", "north"), found("east", admits("north"))},
			want:     []string{"east Expel north"},
			warnings: []string{`in west, "north" is another cluster (UID uid-north) than that of other (UID uid-other): what there is of it is left alone`},
		},
		{
			name: "from a peer that has not seen it yet", leaver: found("north"), peers: []Cluster{with(member("west", "north"), knows("north", ""))},
			want: []string{"west RemoveMembers north", "west Expel north"},
		},
		{name: "nothing to do", leaver: found("north"), peers: []Cluster{member("east", "west"), member("west", "east")}},
		{name: "nothing to do, and nobody to tell", leaver: found("north")},
		{
			name: "only the claim", leaver: found("north", in("production")), peers: []Cluster{member("east")},
			want: []string{"north Unclaim production"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, err := Leave(test.leaver, test.peers)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, steps(plan)); diff != "" {
				t.Errorf("want (-), got (+): %s", diff)
			}
			if diff := cmp.Diff(test.warnings, plan.Warnings); diff != "" {
				t.Errorf("warnings, want (-), got (+): %s", diff)
			}
		})
	}
}

func TestClusterCannotLeaveItself(t *testing.T) {
	plan, err := Leave(member("north", "east"), []Cluster{member("east", "north"), found("alias", func(c *Cluster) { c.UID = "uid-north" })})
	if err == nil || !strings.Contains(err.Error(), "context alias leads to the cluster that is to leave: name the others with --from") || len(plan.Steps) > 0 {
		t.Errorf("got %q, %v", steps(plan), err)
	}
}

// R134: overlapping Pod networks are pointed out where nodes say what they are.
func TestOverlappingPodNetworksArePointedOut(t *testing.T) {
	warnings := overlapping([]Cluster{
		{Context: "e", PodCIDRs: []string{"10.0.0.0/24", "fd00::/64"}}, {Context: "w", PodCIDRs: []string{"10.0.1.0/24"}},
		{Context: "n", PodCIDRs: []string{"10.0.0.128/25"}}, {Context: "unknown"}, {Context: "odd", PodCIDRs: []string{"x"}},
	})
	if len(warnings) != 1 || !strings.Contains(warnings[0], "e (10.0.0.0/24) and n (10.0.0.128/25) overlap") {
		t.Errorf("warnings: %q", warnings)
	}
}
