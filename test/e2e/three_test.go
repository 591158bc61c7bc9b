// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// third starts a third cluster that is a member like the others.
func third(t *testing.T) *localcluster.Cluster {
	t.Helper()
	if err := set.Up(t.Context(), "north"); err != nil {
		t.Fatal(err)
	}
	if err := set.Join(t.Context(), "e2e"); err != nil {
		t.Fatal(err)
	}
	north, err := set.Cluster("north")
	if err != nil {
		t.Fatal(err)
	}
	return north
}

// mcs runs kubectl mcs with a context per cluster. It must succeed.
func mcs(t *testing.T, args ...string) string {
	t.Helper()
	output, err := set.Kubectl(t.Context(), append([]string{"mcs"}, args...)...)
	if err != nil {
		t.Fatalf("kubectl mcs %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// R6, R107, R113: a cluster leaves and rejoins under another ID. Its exports are
// withdrawn and return with it; traffic between the other clusters is not affected.
func TestClusterLeavesAndRejoinsUnderANewIDWhileTrafficFlows(t *testing.T) {
	north := third(t)
	ns := namespace(t, "renamed")
	kubectl(t, north, "create", "namespace", ns)
	deploy(t, east, ns, workload(east, 2, usual)+"---"+exportWeb)
	deploy(t, west, ns, workload(west, 2, usual)+"---"+exportWeb)
	deploy(t, north, ns, strings.ReplaceAll(workload(north, 1, usual)+"---"+exportWeb, "name: web", "name: polar"))
	runClient(t, west, ns)
	awaitReady(t, west, ns, "web")
	awaitReady(t, west, ns, "polar")
	awaitAnswers(t, west, ns, "TCP", "4", clusterSetName(ns), east, west)
	polar := "polar." + ns + ".svc.clusterset.local"
	awaitAnswers(t, west, ns, "TCP", "4", polar, north)
	stop := load(t, west, ns, clusterSetName(ns))

	mcs(t, "leave", "north", "--from", "east,west")
	kubectl(t, west, "wait", "--for=delete", "serviceimport/polar", "-n", ns, "--timeout=60s")
	kubectl(t, north, "wait", "--for=delete", "serviceimport/web", "-n", ns, "--timeout=60s")
	mcs(t, "join", "--clusterset", "e2e", "east", "west", "north", "--id", "north=pole")
	awaitReady(t, west, ns, "polar")
	awaitAnswers(t, west, ns, "TCP", "4", polar, north)
	if sources := kubectl(t, west, "get", "endpointslices", "-n", ns, "-l", "multicluster.kubernetes.io/service-name=polar",
		"-o", `jsonpath={.items[*].metadata.labels.multicluster\.kubernetes\.io/source-cluster}`); strings.Trim(strings.ReplaceAll(sources, "pole", ""), " ") != "" {
		t.Errorf("source clusters of slices are %s", sources)
	}
	mcs(t, "leave", "north", "--from", "east,west")
	mcs(t, "join", "--clusterset", "e2e", "east", "west", "north", "--id", "north=north")
	awaitAnswers(t, west, ns, "TCP", "4", polar, north)

	result := stop()
	t.Logf("%+v", result)
	if result.failed > 0 || result.from["east"] == 0 || result.from["west"] == 0 {
		t.Errorf("%d of %d requests between the other clusters failed; responses came from %v", result.failed, result.requests, result.from)
	}
}

// R89, R91, R92: DNS returns all endpoints of a headless service with a hundred
// endpoints in three clusters.
func TestDNSOfAHundredEndpointsInThreeClusters(t *testing.T) {
	north := third(t)
	ns := namespace(t, "hundred")
	kubectl(t, north, "create", "namespace", ns)
	var all, targets []string
	name := "db." + ns + ".svc.clusterset.local"
	for number, cluster := range []*localcluster.Cluster{east, west, north} {
		var endpoints []string
		for i := range []int{34, 33, 33}[number] {
			address := fmt.Sprintf("10.77.%d.%d", number, i+1)
			endpoints = append(endpoints, fmt.Sprintf("{addresses: [%s], hostname: db-%d, conditions: {ready: true}}", address, i))
			all = append(all, address)
			targets = append(targets, fmt.Sprintf("db-%d.%s.%s.", i, cluster.Name, name))
		}
		apply(t, cluster, ns, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, ports: [{name: sql, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: sql, port: 5432}]
endpoints: [%s]
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: db}
`, strings.Join(endpoints, ", ")))
	}
	runClient(t, west, ns)
	awaitReady(t, west, ns, "db")
	awaitDNS(t, west, ns, name, "A", all...)
	awaitSRV(t, west, ns, "_sql._tcp."+name, "5432", targets...)
	awaitDNS(t, west, ns, "db-32.north."+name, "A", "10.77.2.33")
}

// R622, R623: a service that is exported to west only answers there. In north, its name does not exist, and the credential
// of north reads nothing of it. When the list is changed to north, the service moves.
func TestExportToOneOfTwoClustersMoves(t *testing.T) {
	north := third(t)
	ns := namespace(t, "chosen")
	kubectl(t, north, "create", "namespace", ns)
	deploy(t, east, ns, workload(east, 1, usual))
	runClient(t, west, ns)
	runClient(t, north, ns)
	export := func(to string) {
		t.Helper()
		mcs(t, "export", "web", "-n", ns, "--context", "east", "--to", to, "--wait")
	}
	check := func(reader, stranger *localcluster.Cluster) {
		t.Helper()
		awaitReady(t, reader, ns, "web")
		awaitAnswers(t, reader, ns, "TCP", "4", clusterSetName(ns), east)
		kubectl(t, stranger, "wait", "--for=delete", "serviceimport/web", "-n", ns, "--timeout=60s")
		noName(t, stranger, ns, clusterSetName(ns))
		for _, resource := range []string{"exportedservices", "exportedendpointslices"} {
			if seen := kubectl(t, east, "get", resource, "-n", ns, "-o", "name", "--as", "system:serviceaccount:mcs-system:peer-"+stranger.Name); seen != "" && !strings.Contains(seen, "No resources") {
				t.Errorf("%s reads %s of east: %s", stranger.Name, resource, seen)
			}
			if seen := kubectl(t, east, "get", resource, "-n", ns, "-o", "name", "--as", "system:serviceaccount:mcs-system:peer-"+reader.Name); !strings.Contains(seen, ".east") {
				t.Errorf("%s reads no %s of east: %s", reader.Name, resource, seen)
			}
		}
	}
	export("west")
	check(west, north)
	export("north")
	check(north, west)
}
