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

// losing are the ways to lose a member. It leaves the north in no ClusterSet.
var losing = []step{
	{"a member is silent", func(t *testing.T, u *user) {
		expect.NoError(t, north.Crash())
		for _, cluster := range []*localcluster.Cluster{east, west} {
			expect.Eventually(t, "silent member of "+cluster.Name, func(ctx context.Context) error {
				state, err := cluster.Kubectl(ctx, "get", "member", "north", "-o", "jsonpath={.status.state}")
				if err == nil && state != "Stale" && state != "Lost" {
					err = fmt.Errorf("state is %s", state)
				}
				return err
			})
		}
		blocks := u.commands.Under(t, operations, "A member is silent")
		expect.Contains(t, u.enter(t, east, blocks[0]), "Reachable")
		u.enter(t, east, blocks[2:]...)
		u.enter(t, east, blocks[1])
		expect.Lacks(t, west.MustKubectl(t, "get", "members"), "north")
		expect.NoError(t, north.Recover(t.Context()))
		awaitInstalled(t, north)
		join(t, east, west, north)
	}},
	{"a member misbehaves", func(t *testing.T, u *user) {
		blocks := u.commands.Under(t, operations, "A member misbehaves")
		awaitExport(t, east, "north")
		expect.Contains(t, u.enter(t, east, blocks[0]), "\nwest     Local ", "Name:         north", "db.north")
		u.enter(t, east, blocks[1:3]...)
		shell := u.shell(t, east)
		shell.KeepGoing = true // grep fails if it finds nothing
		expect.Eventually(t, "nothing of the member", func(context.Context) error {
			output := u.commands.Run(t, shell, blocks[3])
			for line := range strings.Lines(output) {
				if !strings.HasPrefix(line, "No resources found") {
					return fmt.Errorf("left is\n%s", output)
				}
			}
			return nil
		})
	}},
	{"removing a cluster that no longer exists", func(t *testing.T, u *user) {
		join(t, east, west, north)
		for _, cluster := range []*localcluster.Cluster{east, west} {
			u.follow(t, cluster, clusterSets, "Removing a cluster that no longer exists")
			expect.Eventually(t, "removal from "+cluster.Name, func(ctx context.Context) error {
				output, err := cluster.Kubectl(ctx, "get", "members", "north")
				if err == nil {
					return fmt.Errorf("still has\n%s", output)
				}
				return nil
			})
		}
		kubectl(t, "mcs", "leave", "north")
	}},
}

// awaitExport waits until a cluster has read what a member exports.
func awaitExport(t *testing.T, in *localcluster.Cluster, member string) {
	t.Helper()
	in.MustKubectl(t, "wait", "--for=condition=Synced", "member/"+member, "--timeout=1m")
	expect.Eventually(t, "exports of "+member, func(ctx context.Context) error {
		exports, err := in.Kubectl(ctx, "get", "member", member, "-o", "jsonpath={.status.exports}")
		if err == nil && exports == "0" {
			err = fmt.Errorf("%s exports nothing", member)
		}
		return err
	})
}
