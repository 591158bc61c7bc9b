// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicas tests mcs-apiserver in a cluster with two nodes: one of its replicas, or the
// node of a replica, fails under load.
package replicas

import (
	"context"
	"os"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// east exports, west imports. West has two nodes.
var east, west *localcluster.Cluster

func TestMain(m *testing.M) { os.Exit(localcluster.RunTests(m, start)) }

func start(ctx context.Context, set *localcluster.Set) (err error) {
	set.Nodes = map[string]int{"west": 2}
	if err := set.Up(ctx, "east", "west"); err != nil {
		return err
	}
	if err := set.Join(ctx, "replicas"); err != nil {
		return err
	}
	if east, err = set.Cluster("east"); err != nil {
		return err
	}
	west, err = set.Cluster("west")
	return err
}
