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

const exportWithOneIP = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: web, annotations: {clusterset.mcs-apiserver.io/use-clusterset-ip: "true"}}
`

// importIPs returns the IPs of an import, or an empty string.
func importIPs(t *testing.T, cluster *localcluster.Cluster, ns string) string {
	t.Helper()
	return kubectl(t, cluster, "get", "serviceimport", "web", "-n", ns, "--ignore-not-found", "-o", "jsonpath={.spec.ips[0]}")
}

// R50, R126, R128, R130, R133: a shared ClusterSet IP works in three clusters, over
// TCP and UDP and by name, and outlives the allocating cluster. Ordinary Services
// never receive an IP of its range.
func TestSharedIPOutlivesTheAllocatingCluster(t *testing.T) {
	north := third(t)
	all := []*localcluster.Cluster{east, west, north}
	ns := namespace(t, "one-ip")
	kubectl(t, north, "create", "namespace", ns)
	deploy(t, east, ns, workload(east, 2, usual)+"---"+exportWithOneIP)
	for _, cluster := range all {
		runClient(t, cluster, ns)
		awaitReady(t, cluster, ns, "web")
	}
	ip := importIPs(t, north, ns)
	if !strings.HasPrefix(ip, "243.") {
		t.Fatalf("IP is %q", ip)
	}
	deploy(t, west, ns, workload(west, 2, usual)+"---"+exportWithOneIP)
	name := clusterSetName(ns)
	for _, cluster := range all {
		if got := importIPs(t, cluster, ns); got != ip {
			t.Errorf("IP in %s is %s, want %s", cluster.Name, got, ip)
		}
		for _, protocol := range []string{"TCP", "UDP"} {
			awaitAnswers(t, cluster, ns, protocol, "4", ip, east, west)
		}
		awaitDNS(t, cluster, ns, name, "A", ip)
	}
	if by := kubectl(t, north, "get", "serviceimport", "web", "-n", ns, "-o", `jsonpath={.metadata.annotations.clusterset\.mcs-apiserver\.io/clusterset-ip-allocated-by}`); by != "east" {
		t.Errorf("IP was allocated by %q", by)
	}

	stop := load(t, north, ns, name)
	talk := converse(t, ns, north)
	var ordinary []string
	for i := range 200 {
		ordinary = append(ordinary, fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: ordinary-%d}\nspec: {ports: [{port: 80}]}\n", i))
	}
	apply(t, west, ns, strings.Join(ordinary, "---\n"))
	if ips := kubectl(t, west, "get", "services", "-n", ns, "-o", "jsonpath={.items[*].spec.clusterIPs}"); strings.Contains(ips, `"243.`) {
		t.Errorf("an ordinary Service has an IP of the ClusterSet IP range: %s", ips)
	}
	mcs(t, "leave", "east", "--from", "west,north")
	for _, cluster := range []*localcluster.Cluster{west, north} {
		awaitExporter(t, cluster, ns, west)
		if got := importIPs(t, cluster, ns); got != ip {
			t.Errorf("IP in %s without the allocating cluster is %s, was %s", cluster.Name, got, ip)
		}
		awaitDNS(t, cluster, ns, name, "A", ip)
		awaitOnlyWest(t, cluster, ns)
	}
	if said := talk(); said != "before\nafter" {
		t.Errorf("open connection returned %q", said)
	}
	result := stop()
	t.Logf("%+v", result)
	if result.failed > 0 || result.from["west"] == 0 {
		t.Errorf("%d of %d requests failed; responses came from %v", result.failed, result.requests, result.from)
	}
	kubectl(t, west, "delete", "serviceexport", "web", "-n", ns)
	kubectl(t, north, "wait", "--for=delete", "serviceimport/web", "-n", ns, "--timeout=60s")
	// east rejoins with its export and allocates the released IP.
	mcs(t, "join", "--clusterset", "e2e", "east", "west", "north")
	expect.Eventually(t, "released IP", func(context.Context) error {
		if got := importIPs(t, north, ns); got != ip {
			return fmt.Errorf("IP is %q, want %q", got, ip)
		}
		return nil
	})
}

// converse opens a connection to another service with a shared IP, which east
// allocates and west serves. The returned function sends a last line through the
// connection and returns everything that was received.
func converse(t *testing.T, ns string, from *localcluster.Cluster) func() string {
	t.Helper()
	const exported = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: echo, annotations: {clusterset.mcs-apiserver.io/use-clusterset-ip: "true"}}
---
apiVersion: v1
kind: Service
metadata: {name: echo}
spec: {selector: {app: echo}, ports: [{port: 82}]}
`
	apply(t, east, ns, exported)
	awaitReady(t, west, ns, "echo")
	apply(t, west, ns, exported+`
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: echo}
spec:
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: echo, image: alpine/socat, args: ["TCP-LISTEN:82,fork,reuseaddr", "PIPE"]}]
`)
	kubectl(t, west, "rollout", "status", "deployment/echo", "-n", ns, "--timeout=100s")
	ip := kubectl(t, from, "get", "serviceimport", "echo", "-n", ns, "-o", "jsonpath={.spec.ips[0]}")
	expect.Eventually(t, "echo of "+ip, func(ctx context.Context) error {
		said, err := exec(ctx, from, ns, "client", "sh", "-c", "echo hello | socat -t2 - TCP:"+ip+":82,connect-timeout=2")
		if err == nil && said != "hello" {
			err = fmt.Errorf("received %q", said)
		}
		return err
	})
	const began, end = "/tmp/conversation", "/tmp/last-word"
	result := make(chan string, 1)
	go func() {
		said, _ := exec(context.Background(), from, ns, "client", "sh", "-c", fmt.Sprintf(
			"(echo before; while [ ! -e %s ]; do sleep 0.1; done; echo after) | socat -t5 - TCP:%s:82 | tee %s", end, ip, began))
		result <- said
	}()
	expect.Eventually(t, "first line", func(ctx context.Context) error {
		said, err := exec(ctx, from, ns, "client", "cat", began)
		if err == nil && said != "before" {
			err = fmt.Errorf("received %q", said)
		}
		return err
	})
	return func() string {
		t.Helper()
		if output, err := exec(t.Context(), from, ns, "client", "touch", end); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		return <-result
	}
}
