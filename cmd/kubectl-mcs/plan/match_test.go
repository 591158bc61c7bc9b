// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// reporting returns a cluster that reports the ID and the UID of another one.
func reporting(c Cluster, id string) Cluster {
	c.ID, c.UID = id, types.UID("uid-"+id)
	return c
}

func reached(id, server, authority string) func(*Cluster) {
	return func(c *Cluster) {
		c.Members[id] = Member{Access: Access{Server: server, CA: authority}, JoinedAt: joinedAt}
	}
}

// R240: the kubeconfig of the user decides which member leaves, not what the cluster
// reports about itself.
func TestLeavingClusterIsIdentifiedByServerAndAuthority(t *testing.T) {
	for _, test := range []struct {
		name     string
		leaving  Cluster
		peer     Cluster
		want     []string
		warnings []string
	}{
		{
			name: "reports ID and UID of another member", leaving: reporting(newCluster("evil"), "north"), peer: member("east", "north"),
			warnings: []string{`in context "east", member "north" is reached at https://north.example:6443, which is not the cluster of context "evil" (https://evil.example:6443), and is not removed: ` +
				"if it is, run `kubectl mcs leave --id north --from east`"},
		},
		{
			name: "reports another ID than it joined with", leaving: reporting(newCluster("evil"), "north"), peer: member("east", "north", "evil"),
			want: []string{"east RemoveMembers evil", "east RevokeAccess evil"},
			warnings: []string{
				`in context "east", member "north" is reached at https://north.example:6443, which is not the cluster of context "evil" (https://evil.example:6443), and is not removed: ` +
					"if it is, run `kubectl mcs leave --id north --from east`",
				`the cluster of context "evil" reports the ID "north", but is member "evil" in context "east", from where it is removed`,
			},
		},
		{
			name: "other clusters reach it at another address", leaving: newCluster("north"), peer: with(member("east", "north", "west"), reached("north", "https://10.0.0.1", "CA of north")),
			want: []string{"east RemoveMembers north", "east RevokeAccess north"},
		},
		{
			name: "another address, and another member with the same authority", leaving: with(newCluster("north"), func(c *Cluster) { c.Access.CA = "shared" }),
			peer: with(member("east", "north", "west"), reached("north", "https://10.0.0.1", "shared"), reached("west", "https://10.0.0.2", "shared")),
			warnings: []string{`in context "east", member "north" is reached at https://10.0.0.1, which is not the cluster of context "north" (https://north.example:6443), and is not removed: ` +
				"if it is, run `kubectl mcs leave --id north --from east`"},
		},
		{
			name: "invalid Secret", leaving: newCluster("north"), peer: with(member("east", "north"), hasOutdated("north")),
			want: []string{"east RemoveMembers north", "east RevokeAccess north"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, err := Leave(test.leaving, []Cluster{test.peer})
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

// R241
func TestRepointingAMemberIsAnError(t *testing.T) {
	for _, test := range []struct {
		name     string
		clusters []Cluster
		ids      map[string]string
		want     string
	}{
		{"the same", []Cluster{member("east", "west"), member("west", "east")}, nil, ""},
		{"new member", []Cluster{member("east"), newCluster("west")}, nil, ""},
		{"invalid Secret", []Cluster{with(member("east"), hasOutdated("west")), newCluster("west")}, nil, ""},
		{"another authority", []Cluster{member("east", "west"), reporting(newCluster("evil"), "west")}, nil,
			`context "east": member "west" is reached at https://west.example:6443, and would be at https://evil.example:6443: the certificate authorities differ; if the cluster of context "evil" is "west", repeat the command with --repoint`},
		{"another authority by --id", []Cluster{member("east", "west"), newCluster("evil")}, map[string]string{"evil": "west"}, `member "west" is reached at https://west.example:6443`},
		{"another address", []Cluster{member("east", "west"), with(member("west", "east"), at("https://10.0.0.1"))}, nil, "the certificate authorities are the same, so keep the address with --server west=https://west.example:6443 if it is still right"},
		{"another name in the certificate", []Cluster{member("east", "west"), with(member("west", "east"), func(c *Cluster) { c.Access.ServerName = "w" })}, nil, "the server names for TLS differ"},
		{"member by another ID", []Cluster{member("east", "west"), reporting(with(newCluster("west")), "north")}, nil,
			"the cluster of context \"west\" is member \"west\", but would become \"north\": run `kubectl mcs leave west --from east` first"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := CheckRepointing(test.clusters, test.ids)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// R424: members that are not changed, because a hub relays them, need not be repointed.
func TestCheckRepointingWithHub(t *testing.T) {
	clusters := []Cluster{with(member("east", "west", "north"), hub), with(member("west", "east"), hasOutdated("north")), member("north", "east")}
	moved := clusters[1].Members["north"]
	moved.Access = accessOf("elsewhere")
	clusters[1].Members["north"] = moved
	if err := CheckRepointing(clusters, nil); err != nil {
		t.Error(err)
	}
	clusters[0].Hub = false
	if err := CheckRepointing(clusters, nil); err == nil {
		t.Error("another server is accepted")
	}
}
