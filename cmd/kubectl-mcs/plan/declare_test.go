// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
				with(member("east", "north"), ipv4, owns("243.1.0.0/16"), func(c *Cluster) {
					c.JoinedAt, c.Accounts = "2025-01-01T00:00:00Z", map[string]types.UID{"north": "uid"}
				}),
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

// R422: claims are applied in the right order by tools that do not follow the order of files. What
// cannot be deleted is not pruned.
func TestDeclaredClaims(t *testing.T) {
	declaration := Declaration{ID: "east", ClusterSet: "production", AllocationCIDRs: "243.1.0.0/16"}
	const skip = "SkipDryRunOnMissingResource=true"
	want := map[string]map[string]string{
		"id.k8s.io": {
			"argocd.argoproj.io/sync-wave": "1", "argocd.argoproj.io/sync-options": skip + ",Prune=false,Delete=false", "kustomize.toolkit.fluxcd.io/prune": "disabled",
		},
		"clusterset-ip-cidr.mcs-apiserver.io": {"argocd.argoproj.io/sync-wave": "1", "argocd.argoproj.io/sync-options": skip},
		"clusterset.k8s.io":                   {"argocd.argoproj.io/sync-wave": "2", "argocd.argoproj.io/sync-options": skip},
	}
	got := map[string]map[string]string{}
	var names []string
	for _, object := range append([]runtime.Object{declaration.IDClaim()}, declaration.ClusterSetClaims()...) {
		claim := object.(metav1.Object)
		got[claim.GetName()] = claim.GetAnnotations()
		names = append(names, claim.GetName())
	}
	if order := []string{"id.k8s.io", "clusterset-ip-cidr.mcs-apiserver.io", "clusterset.k8s.io"}; !slices.Equal(names, order) {
		t.Errorf("claims are %v, want %v", names, order)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected annotations (-want +got):\n%s", diff)
	}
	declaration.AllocationCIDRs = ""
	if claims := declaration.ClusterSetClaims(); len(claims) != 1 {
		t.Errorf("got %v", claims)
	}
}
