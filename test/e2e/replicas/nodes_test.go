// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// web is a Deployment of two Pods that answer every connection with their name, and its Service.
const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: web
        image: alpine/socat
        command: [/bin/sh, -c, 'exec socat TCP6-LISTEN:8080,fork,reuseaddr,ipv6only=0 SYSTEM:"echo $POD"']
        env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  ipFamilyPolicy: RequireDualStack
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
`

// The Pods of a Deployment are spread over the nodes. From every node and from the other cluster,
// every Pod is reachable. Only nodes without a control plane can be cut off.
func TestNodesAreConnected(t *testing.T) {
	ns := localcluster.CreateNamespace(t, "nodes", east, west)
	for _, cluster := range []*localcluster.Cluster{east, west} {
		cluster.MustKubectl(t, "apply", "-n", ns, "-f", expect.Manifest(t, "%s", web))
		cluster.MustKubectl(t, "rollout", "status", "deployment/web", "-n", ns, "--timeout=100s")
	}
	nodes := words(t, west, "get", "pods", "-n", ns, "-o", "jsonpath={.items[*].spec.nodeName}")
	if slices.Sort(nodes); !slices.Equal(nodes, []string{"node-1", "node-2"}) {
		t.Fatalf("Pods run on %v", nodes)
	}
	from := map[*localcluster.Cluster][]string{}
	for _, cluster := range []*localcluster.Cluster{east, west} {
		from[cluster] = words(t, cluster, "get", "pods", "-n", ns, "-o", "jsonpath={.items[*].metadata.name}")
	}
	for _, ip := range words(t, west, "get", "pods", "-n", ns, "-o", "jsonpath={.items[*].status.podIPs[*].ip}") {
		answers(t, east, ns, from[east][0], net.JoinHostPort(ip, "8080"), 1)
		for _, pod := range from[west] {
			answers(t, west, ns, pod, net.JoinHostPort(ip, "8080"), 1)
		}
	}
	for _, ip := range words(t, west, "get", "service", "web", "-n", ns, "-o", "jsonpath={.spec.clusterIPs[*]}") {
		for _, pod := range from[west] {
			answers(t, west, ns, pod, net.JoinHostPort(ip, "80"), 2)
		}
	}

	if err := west.CutNode("node-1"); err == nil || !strings.Contains(err.Error(), "runs the control plane") {
		t.Errorf("cutting off the control plane: %v", err)
	}
	if err := west.CutNode("node-9"); err == nil || !strings.Contains(err.Error(), "node-1 to node-2") {
		t.Errorf("cutting off an unknown node: %v", err)
	}
}

// answers waits until an address has answered a Pod with a number of different names.
func answers(t *testing.T, cluster *localcluster.Cluster, ns, pod, address string, names int) {
	t.Helper()
	seen := map[string]bool{}
	expect.Eventually(t, fmt.Sprintf("answers of %s to %s of %s", address, pod, cluster.Name), func(ctx context.Context) error {
		output, err := cluster.Kubectl(ctx, "exec", "-n", ns, pod, "--", "sh", "-c", "socat -t5 -T5 - TCP:"+address+",connect-timeout=2 </dev/null")
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		if !strings.HasPrefix(output, "web-") {
			return fmt.Errorf("answer %q", output)
		}
		if seen[output] = true; len(seen) < names {
			return fmt.Errorf("answers of %v only", seen)
		}
		return nil
	})
}

func words(t *testing.T, cluster *localcluster.Cluster, args ...string) []string {
	t.Helper()
	return strings.Fields(cluster.MustKubectl(t, args...))
}
