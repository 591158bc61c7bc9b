// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// R422: files declare what joining does, and what was there before.
func TestDeclare(t *testing.T) {
	ipv4, nowText := within("243.0.0.0/8"), "2026-03-01T12:00:00Z"
	newcomer := newCluster("west", ipv4, named("old"), allows("10.2.0.0/16"))
	for _, test := range []struct {
		name     string
		clusters []Cluster
		want     []Declaration
	}{
		{
			name: "clusters join", clusters: []Cluster{newCluster("east", ipv4), newcomer},
			want: []Declaration{
				{Context: "east", ID: "east", ClusterSet: "production", AllocationCIDRs: "243.1.0.0/16", Members: []Membership{
					{ID: "w", UID: "uid-west", Access: accessOf("west"), JoinedAt: nowText, AllowedCIDRs: "10.2.0.0/16", AllocationCIDRs: "243.2.0.0/16", Secret: "member-w"},
				}},
				{Context: "west", ID: "w", ClusterSet: "production", AllocationCIDRs: "243.2.0.0/16", Members: []Membership{
					{ID: "east", UID: "uid-east", Access: accessOf("east"), JoinedAt: nowText, AllocationCIDRs: "243.1.0.0/16", Secret: "member-east"},
				}},
			},
		},
		{
			name: "a cluster joins a member", clusters: []Cluster{
				with(member("east", "north"), ipv4, owns("243.1.0.0/16"), func(c *Cluster) { c.JoinedAt = "2025-01-01T00:00:00Z" }),
				with(member("north", "east"), records("east", "243.1.0.0/16"), func(c *Cluster) {
					east := c.Members["east"]
					east.AllowedCIDRs, east.Secret.Name, east.JoinedAt = "10.1.0.0/16", "by-gitops", "2025-06-01T00:00:00Z"
					east.Kept, east.Kubeconfig = Kept{Data: map[string][]byte{"service-limit": []byte("7")}}, []byte("declared")
					c.Members["east"], c.JoinedAt = east, joinedAt
				}),
				newcomer,
			},
			want: []Declaration{
				{Context: "east", ID: "east", ClusterSet: "production", AllocationCIDRs: "243.1.0.0/16", Members: []Membership{
					{ID: "north", UID: "uid-north", Access: accessOf("north"), JoinedAt: joinedAt, AllocationCIDRs: "none", Secret: "member-north"},
					{ID: "w", UID: "uid-west", Access: accessOf("west"), JoinedAt: nowText, AllowedCIDRs: "10.2.0.0/16", AllocationCIDRs: "243.2.0.0/16", Secret: "member-w"},
				}},
				{Context: "north", ID: "north", ClusterSet: "production", Members: []Membership{
					{ID: "east", UID: "uid-east", Access: accessOf("east"), JoinedAt: "2025-06-01T00:00:00Z", AllowedCIDRs: "10.1.0.0/16", AllocationCIDRs: "243.1.0.0/16", Secret: "by-gitops", Kept: Kept{Data: map[string][]byte{"service-limit": []byte("7")}}, Kubeconfig: []byte("declared")},
					{ID: "w", UID: "uid-west", Access: accessOf("west"), JoinedAt: nowText, AllowedCIDRs: "10.2.0.0/16", AllocationCIDRs: "243.2.0.0/16", Secret: "member-w"},
				}},
				{Context: "west", ID: "w", ClusterSet: "production", AllocationCIDRs: "243.2.0.0/16", Members: []Membership{
					{ID: "east", UID: "uid-east", Access: accessOf("east"), JoinedAt: "2025-06-01T00:00:00Z", AllocationCIDRs: "243.1.0.0/16", Secret: "member-east"},
					{ID: "north", UID: "uid-north", Access: accessOf("north"), JoinedAt: joinedAt, AllocationCIDRs: "none", Secret: "member-north"},
				}},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			ids := map[string]string{"west": "w"}
			planned, err := Join("production", test.clusters, ids)
			if err != nil {
				t.Fatal(err)
			}
			got := Declare(planned, "production", test.clusters, ids, now)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("unexpected declarations (-want +got):\n%s", diff)
			}
		})
	}
}

// R422
func TestDeclaredClaims(t *testing.T) {
	declaration := Declaration{ID: "east", ClusterSet: "production"}
	names := func() (names []string) {
		for _, object := range declaration.Claims() {
			claim := object.(interface{ GetName() string })
			names = append(names, claim.GetName())
		}
		return names
	}
	if diff := cmp.Diff([]string{"id.k8s.io", "clusterset.k8s.io"}, names()); diff != "" {
		t.Error(diff)
	}
	declaration.AllocationCIDRs = "243.1.0.0/16"
	if diff := cmp.Diff([]string{"id.k8s.io", "clusterset-ip-cidr.mcs-apiserver.io", "clusterset.k8s.io"}, names()); diff != "" {
		t.Error(diff)
	}
}
