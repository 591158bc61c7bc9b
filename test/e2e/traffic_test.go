// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R78: an endpoint that becomes unready in one cluster leaves the rotation in
// the other, and comes back.
func TestUnreadyEndpointsLeaveTheRotation(t *testing.T) {
	ns := namespace(t, "unready")
	for _, cluster := range both() {
		deploy(t, cluster, ns, workload(cluster, 1, usual)+"---"+exportWeb)
	}
	runClient(t, west, ns)
	awaitReady(t, west, ns, "web")
	awaitAnswers(t, west, ns, "TCP", "4", clusterSetName(ns), east, west)
	kubectl(t, east, "exec", "-n", ns, "deployment/east", "-c", "tcp", "--", "touch", "/tmp/unready")
	expect.Eventually(t, "the unready endpoint to leave", func(ctx context.Context) error {
		output, err := west.Kubectl(ctx, "get", "endpointslices", "-n", ns, "-l", "multicluster.kubernetes.io/source-cluster=east", "-o", "jsonpath={.items[*].endpoints[*].conditions.ready}")
		if err == nil && strings.Contains(output, "true") {
			err = fmt.Errorf("ready: %s", output)
		}
		return err
	})
	awaitOnlyWest(t, ns)
	onlyFrom(t, west, ns, clusterSetName(ns), 80, 10, west)
	kubectl(t, east, "exec", "-n", ns, "deployment/east", "-c", "tcp", "--", "rm", "/tmp/unready")
	awaitAnswers(t, west, ns, "TCP", "4", clusterSetName(ns), east, west)
}

// awaitOnlyWest waits until ten answers in a row come from west: kube-proxy
// follows a moment after the slices.
func awaitOnlyWest(t *testing.T, ns string) {
	t.Helper()
	expect.Eventually(t, "answers from west only", func(ctx context.Context) error {
		for range 10 {
			answer, err := ask(ctx, west, ns, "TCP", "4", clusterSetName(ns), 80)
			if err != nil || !strings.HasPrefix(answer, "west-") {
				return fmt.Errorf("%q: %w", answer, err)
			}
		}
		return nil
	})
}

// R61: session affinity holds across clusters: one client keeps one endpoint.
func TestSessionAffinityHoldsAcrossClusters(t *testing.T) {
	ns := namespace(t, "sticky")
	sticky := usual + `, sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}`
	for _, cluster := range both() {
		deploy(t, cluster, ns, workload(cluster, 2, sticky)+"---"+exportWeb)
	}
	runClient(t, west, ns)
	awaitReady(t, west, ns, "web")
	awaitSlices(t, west, ns, 4)
	var first string
	expect.Eventually(t, "the first answer", func(ctx context.Context) error {
		var err error
		first, err = ask(ctx, west, ns, "TCP", "4", clusterSetName(ns), 80)
		if err == nil && first == "" {
			err = fmt.Errorf("it is empty")
		}
		return err
	})
	for range 20 {
		if answer, err := ask(t.Context(), west, ns, "TCP", "4", clusterSetName(ns), 80); err != nil || answer != first {
			t.Fatalf("%s answered first, and now %q (%v)", first, answer, err)
		}
	}
}

// R45: when the oldest export of a mixed set goes, the type follows, and IP,
// slices and DNS with it.
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
	expect.Eventually(t, "an answer at the IP", func(ctx context.Context) error {
		answer, err := ask(ctx, west, ns, "TCP", "4", clusterSetName(ns), 8080)
		if err == nil && !strings.HasPrefix(answer, "west-") {
			err = fmt.Errorf("answered %q", answer)
		}
		return err
	})
	awaitSlices(t, west, ns, 1)
	if labels := kubectl(t, west, "get", "endpointslices", "-n", ns, "-l", "service.kubernetes.io/headless,multicluster.kubernetes.io/service-name=web", "-o", "name"); labels != "" {
		t.Errorf("left over: %s", labels)
	}
}

// R77: two clusters whose nodes have one name do not take each other's Pods for
// local ones.
func TestNodesOfOneNameAreNotMistaken(t *testing.T) {
	ns := namespace(t, "nearby")
	deploy(t, east, ns, workload(east, 1, usual+`, internalTrafficPolicy: Local`)+"---"+exportWeb)
	runClient(t, west, ns)
	awaitReady(t, west, ns, "web")
	awaitSlices(t, west, ns, 2)
	if nodes := kubectl(t, east, "get", "endpointslices", "-n", ns, "-l", "multicluster.kubernetes.io/source-cluster=east", "-o", "jsonpath={.items[0].endpoints[0].nodeName}"); nodes != "node-1" {
		t.Errorf("in its own cluster the endpoint is on %q", nodes)
	}
	if nodes := kubectl(t, west, "get", "endpointslices", "-n", ns, "-l", "multicluster.kubernetes.io/source-cluster=east", "-o", "jsonpath={.items[*].endpoints[*].nodeName}"); nodes != "" {
		t.Errorf("in the other cluster the endpoint is on %q", nodes)
	}
	// There is no local Pod, so nothing may answer; when there is one, only it does.
	if answer, err := ask(t.Context(), west, ns, "TCP", "4", clusterSetName(ns), 80); err == nil {
		t.Errorf("%q answered, although only local Pods may", answer)
	}
	deploy(t, west, ns, workload(west, 1, usual+`, internalTrafficPolicy: Local`)+"---"+exportWeb)
	awaitOnlyWest(t, ns)
	onlyFrom(t, west, ns, clusterSetName(ns), 80, 15, west)
}
