// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func allows(cidrs string) func(*Cluster) { return func(c *Cluster) { c.AllowedCIDRs = cidrs } }

// R416: an ID that nobody chose is warned of when a ClusterSet is founded with it.
func TestInviteWithGeneratedID(t *testing.T) {
	own := newCluster("east", allows("10.1.0.0/16"), named("uid-east"), func(c *Cluster) { c.GeneratedID = true })
	planned, err := Invite("production", own, "west")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"context \"east\": the cluster joins with the generated ID \"uid-east\", which is part of names and cannot be changed until it leaves the ClusterSet: " +
		"to choose one, run `kubectl mcs leave east`, change the ClusterClaim id.k8s.io, and invite again"}
	if diff := cmp.Diff(want, planned.Warnings); diff != "" {
		t.Errorf("unexpected warnings (-want +got):\n%s", diff)
	}
}

// R416: inviting does in this cluster what joining does there, and tells what joining records.
func TestInvite(t *testing.T) {
	ipv4, allowed := within("243.0.0.0/8"), allows("10.1.0.0/16")
	for _, test := range []struct {
		name       string
		clusterSet string
		own        Cluster
		want       []Step
		// allocation are the allocation CIDRs that the invitation has.
		allocation string
	}{
		{
			name: "member", own: newCluster("east", in("production"), allowed),
			want: []Step{{Context: "east", Action: GrantAccess, Peers: []string{"west"}}}, allocation: "none",
		},
		{
			name: "again, with the same ClusterSet", clusterSet: "production", own: newCluster("east", in("production"), allowed, grants("west"), ipv4, owns("243.9.0.0/16")),
			want: []Step{}, allocation: "243.9.0.0/16",
		},
		{
			name: "incomplete access", own: newCluster("east", in("production"), allowed, incomplete("west")),
			want: []Step{{Context: "east", Action: GrantAccess, Peers: []string{"west"}}}, allocation: "none",
		},
		{
			name: "founder", clusterSet: "production", own: newCluster("east", ipv4, allowed),
			want: []Step{
				{Context: "east", Action: GrantAccess, Peers: []string{"west"}}, {Context: "east", Action: AssignCIDRs, Value: "243.1.0.0/16"},
				{Context: "east", Action: JoinClusterSet, Value: "production"},
			},
			allocation: "243.1.0.0/16",
		},
		{
			name: "in turn, after it accepted", own: with(member("east", "west"), ipv4, allowed, incomplete("west"), records("west", "243.1.0.0/16")),
			want:       []Step{{Context: "east", Action: GrantAccess, Peers: []string{"west"}}, {Context: "east", Action: AssignCIDRs, Value: "243.2.0.0/16"}},
			allocation: "243.2.0.0/16",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			planned, err := Invite(test.clusterSet, test.own, "west")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Plan{Steps: test.want}, planned); diff != "" {
				t.Errorf("unexpected plan (-want +got):\n%s", diff)
			}
			want := Membership{ID: "east", UID: "uid-east", Access: accessOf("east"), AllowedCIDRs: "10.1.0.0/16", AllocationCIDRs: test.allocation, Secret: "member-east"}
			if diff := cmp.Diff(want, test.own.Told(planned)); diff != "" {
				t.Errorf("unexpected facts (-want +got):\n%s", diff)
			}
		})
	}
}

// R416
func TestInviteIsRefused(t *testing.T) {
	for _, test := range []struct {
		name, clusterSet string
		own              Cluster
		peer             string
		want             []string
	}{
		{"cluster without ID", "production", newCluster("east", named("")), "west", []string{`context "east": cluster has no ID: create the ClusterClaim id.k8s.io first`}},
		{"itself", "", newCluster("east", in("production")), "east", []string{`"east" is the ID of this cluster: name the cluster that is invited`}},
		{"cluster in no ClusterSet", "", newCluster("east"), "west", []string{"cluster is not in a ClusterSet: to join an existing one, accept an invitation of one of its clusters first; to found one, add --clusterset NAME"}},
		{"another ClusterSet", "staging", newCluster("east", in("production")), "west", []string{`cluster is in ClusterSet "production": run ` + "`kubectl mcs leave east` first"}},
		{"all problems", "production", newCluster("east", at("https://127.0.0.1:6443"), unverified), "West!", []string{
			`CLUSTER_ID: Invalid value: "West!"`, `server "https://127.0.0.1:6443" is only reachable from this machine: set the address for other clusters with --server URL`, "certificate is not verified",
		}},
		{"no free CIDR", "production", newCluster("east", within("243.0.0.0/16"), in("production"), taken("uid-x", "243.0.0.0/16")), "west", []string{`context "east": `}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Invite(test.clusterSet, test.own, test.peer)
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got error %v, want %q", err, want)
				}
			}
		})
	}
}

// R416, R335: what the invitation lacks is said.
func TestInviteWithoutAllowedCIDRs(t *testing.T) {
	own := newCluster("east", in("production"), func(c *Cluster) { c.PodCIDRs = []string{"10.1.0.0/24", "fd00:100:0:0:0::/80"} })
	planned, err := Invite("", own, "west")
	if err != nil {
		t.Fatal(err)
	}
	if len(planned.Notes) != 1 || !strings.Contains(planned.Notes[0], "add --allowed-cidrs with the CIDRs of the Pods of all nodes, also of future ones (its nodes have 10.1.0.0/24, fd00:100::/80)") {
		t.Errorf("got notes %q", planned.Notes)
	}
	planned, err = Invite("", with(own, allows("10.1.0.0/24")), "west")
	if err != nil || len(planned.Notes) > 0 || len(planned.Warnings) != 1 || !strings.Contains(planned.Warnings[0], "Pod CIDR fd00:100::/80 of its nodes is not in --allowed-cidrs 10.1.0.0/24") {
		t.Errorf("got %+v, %v", planned, err)
	}
}

// R416: an invitation for a cluster that has access is for no other one with its ID.
func TestInviteAgain(t *testing.T) {
	planned, err := Invite("", with(member("east", "west"), allows("10.1.0.0/16")), "west")
	if err != nil || len(planned.Warnings) != 1 || !strings.Contains(planned.Warnings[0], `cluster "west" (UID "uid-west") has access already, and the invitation has a token of the same service account`) {
		t.Errorf("got %+v, %v", planned, err)
	}
}
