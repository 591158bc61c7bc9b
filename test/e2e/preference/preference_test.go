// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package preference

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster/fabric"
)

// own is that every cluster answers its own clients.
var own = answering{"east": {"east"}, "west": {"west"}, "north": {"north"}}

// but returns what answers if others answer the clients of one cluster.
func (a answering) but(cluster string, others ...string) answering {
	result := maps.Clone(a)
	result[cluster] = others
	return result
}

func scale(t *testing.T, cluster *localcluster.Cluster, replicas int) {
	t.Helper()
	cluster.MustKubectl(t, "scale", "deployment/"+cluster.Name, "-n", shop, fmt.Sprintf("--replicas=%d", replicas))
}

// expectActive checks which tier the import of a cluster shows as active.
func expectActive(t *testing.T, cluster *localcluster.Cluster, tier string) {
	t.Helper()
	expect.Eventually(t, "active tier in "+cluster.Name, func(ctx context.Context) error {
		output, err := cluster.Kubectl(ctx, "get", "serviceimport", "web", "-n", shop, "-o", `jsonpath={.metadata.annotations.clusterset\.mcs-apiserver\.io/active-tier}`)
		if err == nil && output != tier {
			err = fmt.Errorf("it is not %q", tier)
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
}

// expectDetached checks of how many imported EndpointSlices kube-proxy does not use in a cluster.
func expectDetached(t *testing.T, cluster *localcluster.Cluster, count int) {
	t.Helper()
	expect.Eventually(t, "detached EndpointSlices in "+cluster.Name, func(ctx context.Context) error {
		output, err := cluster.Kubectl(ctx, "get", "endpointslices", "-n", shop, "-o", "name", "-l", "clusterset.mcs-apiserver.io/detached,service.kubernetes.io/headless")
		if err == nil && strings.Count(output, "endpointslice") != count {
			err = fmt.Errorf("there are not %d", count)
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
}

// R600, R603, R604, R605, R607, R610: clients use their own cluster, then one of their region, then
// any, and no request fails while endpoints come and go, a cluster is cut off, or the proxies are told
// by labels instead of hints.
func TestRequestsStayInThePreferredClusters(t *testing.T) {
	localcluster.CreateNamespace(t, shop, clusters()...)
	for _, cluster := range clusters() {
		cluster.MustKubectl(t, "apply", "-n", shop, "-f", expect.Manifest(t, server, cluster.Name))
	}
	for _, cluster := range clusters() {
		cluster.MustKubectl(t, "rollout", "status", "deployment/"+cluster.Name, "-n", shop, "--timeout=100s")
		cluster.MustKubectl(t, "apply", "-n", shop, "-f", expect.Manifest(t, client))
	}
	own.await(t)
	table := &table{now: own}
	defer func() { t.Logf("what clients noticed:\n%s", table) }()
	failAndReturn := func(by string) {
		t.Helper()
		for _, pair := range [][2]*localcluster.Cluster{{east, west}, {west, east}} {
			cluster, neighbor := pair[0], pair[1]
			table.change(t, fmt.Sprintf("%s: 3 → 0 endpoints (%s)", cluster.Name, by), own.but(cluster.Name, neighbor.Name), func() { scale(t, cluster, 0) })
			expectActive(t, cluster, "property:region.example.com")
			table.change(t, fmt.Sprintf("%s: 0 → 3 endpoints (%s)", cluster.Name, by), own, func() { scale(t, cluster, 3) })
			expectActive(t, cluster, "cluster")
		}
	}
	failAndReturn("hints")
	table.change(t, "north: 3 → 0 endpoints (hints)", own.but("north", "east", "west"), func() { scale(t, north, 0) })
	table.change(t, "north: 0 → 3 endpoints (hints)", own, func() { scale(t, north, 3) })
	t.Run("cut", func(t *testing.T) { cutOff(t, table) })
	t.Run("detach", func(t *testing.T) {
		// Nothing runs on the nodes, but they have no zone.
		both := []*localcluster.Cluster{east, west}
		table.change(t, "east and west get a node without a zone", own, func() {
			for _, cluster := range both {
				cluster.MustKubectl(t, "apply", "-f", expect.Manifest(t, "apiVersion: v1\nkind: Node\nmetadata: {name: without-zone}\n"))
			}
			for _, cluster := range both {
				expectDetached(t, cluster, 2)
			}
		})
		failAndReturn("detached")
		table.change(t, "these nodes are deleted", own, func() {
			for _, cluster := range both {
				cluster.MustKubectl(t, "delete", "node", "without-zone")
				expectDetached(t, cluster, 0)
			}
		})
	})
	t.Run("minimum", func(t *testing.T) { returnWithOnePod(t, table) })
}

// cutOff cuts west off, whose endpoints are withdrawn, so that east falls back to north.
func cutOff(t *testing.T, table *table) {
	others := []*localcluster.Cluster{east, north}
	repair := func(ctx context.Context) error {
		return errors.Join(set.Repair(ctx, "west", "east"), set.Repair(ctx, "west", "north"))
	}
	t.Cleanup(func() {
		if err := repair(context.Background()); err != nil {
			t.Error(err)
		}
	})
	table.change(t, "west is cut off, and lost", own, func() {
		for _, other := range others {
			if err := set.Impair(t.Context(), fabric.Fault{Clusters: [2]string{"west", other.Name}, Cut: true}); err != nil {
				t.Fatal(err)
			}
		}
		for _, other := range others {
			expect.Eventually(t, "withdrawal of west in "+other.Name, func(ctx context.Context) error {
				output, err := other.Kubectl(ctx, "get", "endpointslices", "-n", shop, "-o", "name", "-l", "multicluster.kubernetes.io/source-cluster=west")
				if err == nil && strings.Contains(output, "endpointslice") {
					err = errors.New("still there")
				}
				if err != nil {
					return fmt.Errorf("%w: %s", err, output)
				}
				return nil
			})
		}
	})
	table.change(t, "east: 3 → 0 endpoints while west is lost", own.but("east", "north"), func() { scale(t, east, 0) })
	expectActive(t, east, "all")
	table.change(t, "west is back", own.but("east", "west"), func() {
		if err := repair(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	table.change(t, "east: 0 → 3 endpoints", own, func() { scale(t, east, 3) })
}

// returnWithOnePod lets a cluster fail and return with a single Pod, which is less than the minimum.
func returnWithOnePod(t *testing.T, table *table) {
	for _, cluster := range clusters() {
		cluster.MustKubectl(t, "annotate", "serviceexport", "web", "-n", shop, "clusterset.mcs-apiserver.io/preference-min-ready=2")
	}
	expect.Eventually(t, "minimum", func(ctx context.Context) error {
		output, err := north.Kubectl(ctx, "get", "serviceimport", "web", "-n", shop, "-o", `jsonpath={.metadata.annotations.clusterset\.mcs-apiserver\.io/preference-min-ready}`)
		if err == nil && output != "2" {
			err = errors.New("it is not 2")
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
	everywhere := own.but("north", "east", "west")
	table.change(t, "north: 3 → 0 endpoints, 2 needed", everywhere, func() { scale(t, north, 0) })
	table.change(t, "north: 0 → 1 endpoints, 2 needed", own.but("north", "east", "north", "west"), func() {
		scale(t, north, 1)
		north.MustKubectl(t, "rollout", "status", "deployment/north", "-n", shop, "--timeout=100s")
		hold(t, 8*time.Second) // longer than it takes until a tier takes over
	})
	expectActive(t, north, "all")
	table.change(t, "north: 1 → 2 endpoints, 2 needed", own, func() { scale(t, north, 2) })
	expectActive(t, north, "cluster")
}

// hold lets traffic flow for a while.
func hold(t *testing.T, duration time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(duration):
	}
}
