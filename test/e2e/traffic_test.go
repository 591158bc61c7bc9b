// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// R78: an endpoint that becomes unready in one cluster is removed from load balancing
// in the other, and returns when it is ready.
func TestUnreadyEndpointsReceiveNoTraffic(t *testing.T) {
	ns := namespace(t, "unready")
	for _, cluster := range both() {
		deploy(t, cluster, ns, workload(cluster, 1, usual)+"---"+exportWeb)
	}
	runClient(t, west, ns)
	awaitReady(t, west, ns, "web")
	awaitAnswers(t, west, ns, "TCP", "4", clusterSetName(ns), east, west)
	kubectl(t, east, "exec", "-n", ns, "deployment/east", "-c", "tcp", "--", "touch", "/tmp/unready")
	expect.Eventually(t, "unready endpoint", func(ctx context.Context) error {
		output, err := west.Kubectl(ctx, "get", "endpointslices", "-n", ns, "-l", "multicluster.kubernetes.io/source-cluster=east", "-o", "jsonpath={.items[*].endpoints[*].conditions.ready}")
		if err == nil && strings.Contains(output, "true") {
			err = fmt.Errorf("ready: %s", output)
		}
		return err
	})
	awaitOnlyWest(t, west, ns)
	onlyFrom(t, west, ns, clusterSetName(ns), 80, 10, west)
	kubectl(t, east, "exec", "-n", ns, "deployment/east", "-c", "tcp", "--", "rm", "/tmp/unready")
	awaitAnswers(t, west, ns, "TCP", "4", clusterSetName(ns), east, west)
}

// awaitOnlyWest waits until ten consecutive responses in a cluster come from west: kube-proxy
// follows shortly after the slices.
func awaitOnlyWest(t *testing.T, in *localcluster.Cluster, ns string) {
	t.Helper()
	expect.Eventually(t, "responses from west only", func(ctx context.Context) error {
		for range 10 {
			answer, err := ask(ctx, in, ns, "TCP", "4", clusterSetName(ns), 80)
			if err != nil || !strings.HasPrefix(answer, "west-") {
				return fmt.Errorf("%q: %w", answer, err)
			}
		}
		return nil
	})
}

// R61, R441: session affinity holds across clusters: a client keeps its endpoint, with every mode of
// kube-proxy.
func TestSessionAffinityHoldsAcrossClusters(t *testing.T) {
	ns := namespace(t, "sticky")
	sticky := usual + `, sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}`
	for _, cluster := range both() {
		deploy(t, cluster, ns, workload(cluster, 2, sticky)+"---"+exportWeb)
	}
	for _, cluster := range both() {
		runClient(t, cluster, ns)
		awaitReady(t, cluster, ns, "web")
		awaitSlices(t, cluster, ns, 4)
		var first string
		expect.Eventually(t, "first response in "+cluster.Name, func(ctx context.Context) (err error) {
			first, err = ask(ctx, cluster, ns, "TCP", "4", clusterSetName(ns), 80)
			return err
		})
		for range 20 {
			if answer, err := ask(t.Context(), cluster, ns, "TCP", "4", clusterSetName(ns), 80); err != nil || answer != first {
				t.Fatalf("first response in %s is from %s, a later one is %q (%v)", cluster.Name, first, answer, err)
			}
		}
	}
}

// R45: when the oldest export of a mixed set is withdrawn, the type follows the next
// oldest export, and so do IP, slices and DNS.
func TestTypeFollowsTheOldestExport(t *testing.T) {
	ns := namespace(t, "flipping")
	deploy(t, east, ns, workload(east, 1, `clusterIP: None, ports: [{name: tcp, port: 8080}]`)+"---"+exportWeb)
	runClient(t, west, ns)
	awaitReady(t, west, ns, "web")
	deploy(t, west, ns, workload(west, 1, `ports: [{name: tcp, port: 8080}]`)+"---"+exportWeb)
	pods := func() []string {
		var ips []string
		for _, cluster := range both() {
			ips = append(ips, words(t, cluster, "get", "pods", "-n", ns, "-l", "app=web", "-o", "jsonpath={.items[*].status.podIP}")...)
		}
		return ips
	}
	awaitDNS(t, west, ns, clusterSetName(ns), "A", pods()...)
	kubectl(t, east, "delete", "serviceexport", "web", "-n", ns)
	kubectl(t, west, "wait", "--for=jsonpath={.spec.type}=ClusterSetIP", "serviceimport/web", "-n", ns, "--timeout=60s")
	awaitReady(t, west, ns, "web")
	ip := kubectl(t, west, "get", "serviceimport", "web", "-n", ns, "-o", "jsonpath={.spec.ips[0]}")
	awaitDNS(t, west, ns, clusterSetName(ns), "A", ip)
	expect.Eventually(t, "response of the IP", func(ctx context.Context) error {
		answer, err := ask(ctx, west, ns, "TCP", "4", clusterSetName(ns), 8080)
		if err == nil && !strings.HasPrefix(answer, "west-") {
			err = fmt.Errorf("response is %q", answer)
		}
		return err
	})
	awaitSlices(t, west, ns, 1)
	if labels := kubectl(t, west, "get", "endpointslices", "-n", ns, "-l", "service.kubernetes.io/headless,multicluster.kubernetes.io/service-name=web", "-o", "name"); labels != "" {
		t.Errorf("leftover slices: %s", labels)
	}
}

// R77: Pods of another cluster are not treated as local because the nodes of both
// clusters have the same name.
func TestNodesOfTheSameNameAreDistinct(t *testing.T) {
	ns := namespace(t, "nearby")
	deploy(t, east, ns, workload(east, 1, usual+`, internalTrafficPolicy: Local`)+"---"+exportWeb)
	runClient(t, west, ns)
	awaitReady(t, west, ns, "web")
	awaitSlices(t, west, ns, 2)
	if nodes := kubectl(t, east, "get", "endpointslices", "-n", ns, "-l", "multicluster.kubernetes.io/source-cluster=east", "-o", "jsonpath={.items[0].endpoints[0].nodeName}"); nodes != "node-1" {
		t.Errorf("endpoint in its own cluster is on node %q", nodes)
	}
	if nodes := kubectl(t, west, "get", "endpointslices", "-n", ns, "-l", "multicluster.kubernetes.io/source-cluster=east", "-o", "jsonpath={.items[*].endpoints[*].nodeName}"); nodes != "" {
		t.Errorf("endpoint in the other cluster is on node %q", nodes)
	}
	// Without a local Pod there must be no response; with one, only the local Pod responds.
	if answer, err := ask(t.Context(), west, ns, "TCP", "4", clusterSetName(ns), 80); err == nil {
		t.Errorf("%q responded, although only local Pods may", answer)
	}
	deploy(t, west, ns, workload(west, 1, usual+`, internalTrafficPolicy: Local`)+"---"+exportWeb)
	awaitOnlyWest(t, west, ns)
	onlyFrom(t, west, ns, clusterSetName(ns), 80, 15, west)
}
