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

// operating is what changes an installation and restores it: of the north, and the registration
// of the west.
var operating = []step{
	{"backup and restore", func(t *testing.T, u *user) {
		blocks := u.commands.Under(t, operations, "Backup and restore")
		before := stored(t, north)
		u.enter(t, north, blocks[0])
		expect.Contains(t, u.written(t, "mcs-storage.yaml"), "serviceexports")

		north.MustKubectl(t, "annotate", "namespace", "mcs-storage", "storage.mcs-apiserver.io/allow-deletion=true")
		expect.Eventually(t, "deletion of the storage", func(ctx context.Context) error {
			_, err := north.Kubectl(ctx, "delete", "namespace", "mcs-storage")
			return err
		})
		expect.Eventually(t, "storage namespace", func(ctx context.Context) error {
			_, err := north.Kubectl(ctx, "get", "namespace", "mcs-storage")
			return err
		})
		expect.Eventually(t, "Event about the storage", func(ctx context.Context) error {
			events, err := north.Kubectl(ctx, "get", "events", "-n", "mcs-system", "--field-selector=reason=StorageUnavailable")
			if err == nil && !strings.Contains(events, "was lost") {
				err = fmt.Errorf("Events are\n%s", events)
			}
			return err
		})
		expect.Contains(t, u.enter(t, north, u.commands.Under(t, operations, "Lost storage")[0]), "StorageUnavailable", "[pod/mcs-apiserver-")
		u.enter(t, north, blocks[1])
		expectStored(t, north, before)

		u.enter(t, north, blocks[2])
		expectStored(t, north, before)
	}},
	{"lost storage", func(t *testing.T, u *user) {
		u.enter(t, north, u.commands.Under(t, operations, "Lost storage")[1])
		awaitInstalled(t, north)
		expect.Lacks(t, north.MustKubectl(t, "get", "deployment", "-n", "mcs-system", "mcs-apiserver", "-o", "yaml"), "- --accept-storage")
	}},
	{"serving certificate", func(t *testing.T, u *user) {
		u.follow(t, north, operations, "Serving certificate")
		awaitInstalled(t, north)
	}},
	{"detaching the API", func(t *testing.T, u *user) {
		blocks := u.commands.Under(t, operations, "Detaching the API in an emergency")
		u.enter(t, east, blocks[0])
		expect.Contains(t, u.enter(t, east, blocks[1]), "is detached")
		attached := "API of mcs-apiserver is available"
		expect.Contains(t, u.enter(t, east, blocks[3]), attached)
		u.enter(t, east, blocks[2])
		expect.Lacks(t, west.MustKubectl(t, "get", "apiservices"), "mcs-apiserver")
		expect.Contains(t, kubectl(t, "mcs", "attach", "west"), attached)
		east.MustKubectl(t, "annotate", "secret", "-n", "mcs-system", "member-west", "clusterset.mcs-apiserver.io/lost-policy-")
	}},
}

// stored returns the ServiceExports and ClusterClaims of a cluster with their UIDs.
func stored(t *testing.T, in *localcluster.Cluster) string {
	t.Helper()
	return in.MustKubectl(t, "get", "serviceexports,clusterclaims", "-A", "-o", `jsonpath={range .items[*]}{.metadata.name}={.metadata.uid} {end}`)
}

// expectStored waits until a cluster is up to date, and expects what it had stored before.
func expectStored(t *testing.T, in *localcluster.Cluster, before string) {
	t.Helper()
	awaitInstalled(t, in)
	if now := stored(t, in); now != before {
		t.Errorf("%s has stored %s, had %s", in.Name, now, before)
	}
}

// awaitInstalled waits until the Pods of a cluster are up to date, and the API is available.
func awaitInstalled(t *testing.T, in *localcluster.Cluster) {
	t.Helper()
	in.MustKubectl(t, "rollout", "status", "-n", "mcs-system", "deployment/mcs-apiserver", "--timeout=100s")
	expect.Eventually(t, "API of "+in.Name, func(ctx context.Context) error {
		output, err := in.Kubectl(ctx, "get", "apiservices", "-l", "app.kubernetes.io/managed-by=mcs-controller")
		if err == nil && (strings.Contains(output, "False") || !strings.Contains(output, "True")) {
			err = fmt.Errorf("APIServices are\n%s", output)
		}
		if err == nil { // what the kube-apiserver says may be from before a crash
			_, err = in.Kubectl(ctx, "get", "serviceexports,clusterclaims", "-A")
		}
		return err
	})
}
