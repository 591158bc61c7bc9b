// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preference tests which clusters answer clients whose Services prefer some: three
// clusters, of which two are in the same region. kube-proxy has the mode nftables in east and north,
// and iptables in west.
package preference

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

var (
	set               *localcluster.Set
	east, west, north *localcluster.Cluster
)

// regions are those that the clusters are in.
var regions = map[string]string{"east": "eu", "west": "eu", "north": "us"}

func clusters() []*localcluster.Cluster { return []*localcluster.Cluster{east, west, north} }

func TestMain(m *testing.M) { os.Exit(localcluster.RunTests(m, start)) }

func start(ctx context.Context, created *localcluster.Set) error {
	set = created
	if err := set.Up(ctx, "east", "west", "north"); err != nil {
		return err
	}
	if err := set.Join(ctx, "preference"); err != nil {
		return err
	}
	for name, cluster := range map[string]**localcluster.Cluster{"east": &east, "west": &west, "north": &north} {
		found, err := set.Cluster(name)
		if err != nil {
			return err
		}
		*cluster = found
		claim := fmt.Sprintf("apiVersion: multicluster.k8s.io/v1\nkind: ClusterClaim\nmetadata: {name: region.example.com}\nspec: {value: %s}\n", regions[name])
		file := set.Dir + "/region-" + name + ".yaml"
		if err := os.WriteFile(file, []byte(claim), 0o600); err != nil {
			return err
		}
		if output, err := found.Kubectl(ctx, "apply", "-f", file); err != nil {
			return fmt.Errorf("claim the region of %s: %w\n%s", name, err, output)
		}
	}
	return nil
}
