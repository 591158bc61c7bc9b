// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// both are the two clusters.
func both() []*localcluster.Cluster { return []*localcluster.Cluster{east, west} }

// workload is a Deployment named after its cluster, so that a response identifies the
// cluster, and a Service. It responds to every connection and datagram at port 8080
// with the name of the Pod.
func workload(cluster *localcluster.Cluster, replicas int, serviceSpec string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: tcp
        image: alpine/socat
        command: [/bin/sh, -c, 'exec socat TCP6-LISTEN:8080,fork,reuseaddr,ipv6only=0 SYSTEM:"echo $POD"']
        env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        readinessProbe: {exec: {command: [sh, -c, 'test ! -e /tmp/unready']}, periodSeconds: 1}
      - name: udp
        image: alpine/socat
        command: [/bin/sh, -c, 'exec socat UDP6-RECVFROM:8080,fork,ipv6only=0 SYSTEM:"read line; echo $POD"']
        env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, %[3]s}
`, cluster.Name, replicas, serviceSpec)
}

// usual is the Service spec of most tests.
const usual = `ipFamilyPolicy: RequireDualStack, ports: [{name: tcp, port: 80, targetPort: 8080}, {name: udp, port: 80, protocol: UDP, targetPort: 8080}]`

const exportWeb = `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: web}
`

// deploy creates a workload and waits until it is available.
func deploy(t *testing.T, cluster *localcluster.Cluster, ns, manifests string) {
	t.Helper()
	apply(t, cluster, ns, manifests)
	kubectl(t, cluster, "rollout", "status", "deployment/"+cluster.Name, "-n", ns, "--timeout=100s")
}

// runClient runs a client Pod.
func runClient(t *testing.T, cluster *localcluster.Cluster, ns string) {
	t.Helper()
	apply(t, cluster, ns, client)
	kubectl(t, cluster, "wait", "pod/client", "-n", ns, "--for=condition=Ready", "--timeout=100s")
}

// awaitExporter waits until the import web has one exporting cluster. kubectl wait fails if
// it still has several when it begins to wait.
func awaitExporter(t *testing.T, cluster *localcluster.Cluster, ns string, exporter *localcluster.Cluster) {
	t.Helper()
	expect.Within(t, time.Minute, "ServiceImport web of "+exporter.Name+" in "+cluster.Name, func(ctx context.Context) error {
		output, err := cluster.Kubectl(ctx, "get", "serviceimport", "web", "-n", ns, "-o", "jsonpath={.status.clusters[*].cluster}")
		if err == nil && output != exporter.Name {
			err = errors.New("exported by other clusters")
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
}

// awaitReady waits until an import is ready.
func awaitReady(t *testing.T, cluster *localcluster.Cluster, ns, name string) {
	t.Helper()
	// kubectl wait fails if a replica serves it that does not know the import yet, even if another
	// one did before.
	expect.Within(t, 2*time.Minute, "ServiceImport "+name+" in "+cluster.Name, func(ctx context.Context) error {
		output, err := cluster.Kubectl(ctx, "wait", "--for=condition=Ready", "serviceimport/"+name, "-n", ns, "--timeout=60s")
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
}

// ask sends one request from a Pod to an address, over TCP or UDP and one IP family.
func ask(ctx context.Context, cluster *localcluster.Cluster, ns, protocol, family, host string, port int) (string, error) {
	command := "socat -u -%s -T5 %s:%s:%d,connect-timeout=5 -" // receives only, since data could arrive after the server has closed
	if protocol == "UDP" {                                     // nothing tells the end of a response but the line
		command = `f=$(mktemp) && socat -%s -T5 -t0.1 %s:%s:%d SYSTEM:"echo; head -n1 >$f"; cat $f; rm $f`
	}
	answer, err := exec(ctx, cluster, ns, "client", "sh", "-c", fmt.Sprintf(command, family, protocol, host, port))
	if err == nil && answer == "" {
		err = errors.New("no response within 5 seconds") // socat does not fail
	}
	return answer, err
}

// awaitAnswers sends requests until all given clusters have responded.
func awaitAnswers(t *testing.T, cluster *localcluster.Cluster, ns, protocol, family, host string, from ...*localcluster.Cluster) {
	t.Helper()
	seen := map[string]bool{}
	expect.Eventually(t, fmt.Sprintf("responses over %s and IPv%s of %s", protocol, family, host), func(ctx context.Context) error {
		answer, err := ask(ctx, cluster, ns, protocol, family, host, 80)
		if err != nil {
			return fmt.Errorf("%w: %s", err, answer)
		}
		name, _, _ := strings.Cut(answer, "-")
		seen[name] = true
		for _, wanted := range from {
			if !seen[wanted.Name] {
				return fmt.Errorf("no response from %s yet, only from %v", wanted.Name, seen)
			}
		}
		return nil
	})
	if len(seen) != len(from) {
		t.Errorf("responses came from %v", seen)
	}
}

// onlyFrom sends several requests and fails for any response from another cluster.
func onlyFrom(t *testing.T, cluster *localcluster.Cluster, ns, host string, port, times int, from *localcluster.Cluster) {
	t.Helper()
	for range times {
		answer, err := ask(t.Context(), cluster, ns, "TCP", "4", host, port)
		if err != nil || !strings.HasPrefix(answer, from.Name+"-") {
			t.Fatalf("response of %s:%d is %q (%v), want one from %s", host, port, answer, err, from.Name)
		}
	}
}

// dig queries the cluster's DNS and returns the answers, one per line.
func dig(ctx context.Context, cluster *localcluster.Cluster, ns, name, recordType string) ([]string, error) {
	output, err := exec(ctx, cluster, ns, "client", "dig", "+short", "+tries=1", "+time=2", name, recordType)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, output)
	}
	return strings.Fields(output), nil
}

// digStatus returns the response code of a DNS query, such as NOERROR or NXDOMAIN.
func digStatus(ctx context.Context, cluster *localcluster.Cluster, ns, name, recordType string) (string, error) {
	output, err := exec(ctx, cluster, ns, "client", "dig", "+tries=1", "+time=2", name, recordType)
	_, after, found := strings.Cut(output, "status: ")
	if err != nil || !found {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	status, _, _ := strings.Cut(after, ",")
	return status, nil
}

// awaitSlices waits until the import web has the given number of EndpointSlices.
func awaitSlices(t *testing.T, cluster *localcluster.Cluster, ns string, count int) {
	t.Helper()
	expect.Eventually(t, "slices", func(ctx context.Context) error {
		output, err := cluster.Kubectl(ctx, "get", "endpointslices", "-n", ns, "-l", "multicluster.kubernetes.io/service-name=web", "-o", "name")
		if found := strings.Count(output, "\n"); err != nil || found != count {
			return fmt.Errorf("%d slices, want %d: %w", found, count, err)
		}
		return nil
	})
}
