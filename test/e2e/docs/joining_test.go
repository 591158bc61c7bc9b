// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

const clusterSets = "docs/clustersets.md"

// joining are the ways to join clusters. It leaves all of them in ClusterSet production.
var joining = []step{
	{"cluster identity", func(t *testing.T, u *user) {
		u.follow(t, west, clusterSets, "Cluster identity")
		expect.Contains(t, kubectl(t, "--context", "east", "get", "clusterclaim", "id.k8s.io", "-o", "jsonpath={.spec.value}"), "east")
	}},
	{"check that the clusters are ready", func(t *testing.T, u *user) {
		output := u.follow(t, east, clusterSets, "Check that the clusters are ready")
		expect.Contains(t, output, "✓ the clusters can join ClusterSet \"production\", in ", "✓ east: the API of mcs-apiserver is registered and available", "not checked (?)")
	}},
	{"run kubectl mcs join", func(t *testing.T, u *user) {
		output := u.follow(t, east, clusterSets, "Run `kubectl mcs join`")
		expect.Contains(t, output, "Plan:\n", "  west: wait for connection to east\n", "✓ east: grant read access to west", "All 2 clusters are members of ClusterSet \"production\".")
		part(t)
	}},
	{"creating a membership manually", func(t *testing.T, u *user) {
		blocks := u.commands.Under(t, clusterSets, "Creating a membership manually")
		u.enter(t, east, blocks[0])
		exchanged := strings.NewReplacer("east", "west", "west", "east")
		u.shell(t, west).Run(t, exchanged.Replace(blocks[0].Commands()))
		for _, cluster := range []*localcluster.Cluster{east, west} {
			claim := expect.Manifest(t, "apiVersion: multicluster.k8s.io/v1\nkind: ClusterClaim\nmetadata: {name: clusterset.k8s.io}\nspec: {value: production}\n")
			expect.Eventually(t, "ClusterClaim of "+cluster.Name, func(ctx context.Context) error {
				output, err := cluster.Kubectl(ctx, "apply", "-f", claim)
				if err != nil {
					err = fmt.Errorf("%w: %s", err, output)
				}
				return err
			})
		}
		u.enter(t, east, blocks[1])
		kubectl(t, "mcs", "status", "east", "west", "--wait")
		expect.Contains(t, kubectl(t, "--context", "west", "get", "secret", "-n", "mcs-system", "member-east", "-o", "jsonpath={.data}"), `"joined-at"`)
		part(t)
	}},
	{"joining clusters of other administrators", func(t *testing.T, u *user) {
		blocks := u.commands.Under(t, clusterSets, "Joining clusters of other administrators")
		expect.Contains(t, u.enter(t, east, blocks[0]), "✓ east: grant read access to west", "Wrote east-invites-west.yaml\n", "\n  ClusterSet:              production\n", "\n  Allowed CIDRs:           10.100.0.0/16\n")
		expect.Contains(t, u.enter(t, west, blocks[1]), "Wrote west-invites-east.yaml\n")
		u.shell(t, east).Run(t, "kubectl mcs accept -f west-invites-east.yaml --context east\n") // as the text says
		kubectl(t, "mcs", "status", "east", "west", "--wait")
		part(t)
	}},
	{"join of the README", func(t *testing.T, u *user) {
		output := u.enter(t, east, u.commands.Under(t, "README.md", "Installing mcs-apiserver")[1])
		expect.Contains(t, output, "✓ the clusters can join ClusterSet \"production\"", "All 2 clusters are members of ClusterSet \"production\".")
		join(t, east, west, north)
	}},
}

// part lets the clusters east and west leave their ClusterSet.
func part(t *testing.T) {
	t.Helper()
	kubectl(t, "mcs", "leave", "west", "--from", "east")
	kubectl(t, "mcs", "leave", "east")
}
