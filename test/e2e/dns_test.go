// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// awaitDNS waits until a query returns exactly these answers, sorted.
func awaitDNS(t *testing.T, cluster *localcluster.Cluster, ns, name, recordType string, want ...string) {
	t.Helper()
	slices.Sort(want)
	expect.Eventually(t, recordType+" of "+name, func(ctx context.Context) error {
		answers, err := dig(ctx, cluster, ns, name, recordType)
		if err != nil {
			return err
		}
		slices.Sort(answers)
		if !slices.Equal(answers, want) {
			return fmt.Errorf("%q, want %q", answers, want)
		}
		return nil
	})
}

// awaitSRV waits until the SRV records of a name have exactly these targets and port.
func awaitSRV(t *testing.T, cluster *localcluster.Cluster, ns, name, port string, want ...string) {
	t.Helper()
	slices.Sort(want)
	expect.Eventually(t, "SRV of "+name, func(ctx context.Context) error {
		answers, err := dig(ctx, cluster, ns, name, "SRV")
		if err != nil {
			return err
		}
		var targets []string
		for record := range slices.Chunk(answers, 4) { // priority, weight, port, target
			if len(record) != 4 || record[2] != port {
				return fmt.Errorf("%v", answers)
			}
			targets = append(targets, record[3])
		}
		slices.Sort(targets)
		if targets = slices.Compact(targets); !slices.Equal(targets, want) {
			return fmt.Errorf("%v, want %v", targets, want)
		}
		return nil
	})
}

// noName waits until a name does not exist.
func noName(t *testing.T, cluster *localcluster.Cluster, ns, name string) {
	t.Helper()
	expect.Eventually(t, "absence of "+name, func(ctx context.Context) error {
		status, err := digStatus(ctx, cluster, ns, name, "A")
		if err == nil && status != "NXDOMAIN" {
			err = errors.New(status)
		}
		return err
	})
}

// words returns the fields of kubectl's output.
func words(t *testing.T, cluster *localcluster.Cluster, args ...string) []string {
	t.Helper()
	return strings.Fields(kubectl(t, cluster, args...))
}

// R83 to R88: records of a ClusterSetIP service.
func TestDNSOfAClusterSetIPService(t *testing.T) {
	ns := namespace(t, "dns-ip")
	deploy(t, east, ns, workload(east, 1, usual)+"---"+exportWeb)
	runClient(t, west, ns)
	awaitReady(t, west, ns, "web")
	name := clusterSetName(ns)
	ips := words(t, west, "get", "serviceimport", "web", "-n", ns, "-o", "jsonpath={.spec.ips[*]}")
	awaitDNS(t, west, ns, name, "A", ips[0])
	awaitDNS(t, west, ns, name, "AAAA", ips[1])
	awaitSRV(t, west, ns, "_tcp._tcp."+name, "80", name+".")
	awaitSRV(t, west, ns, "_udp._udp."+name, "80", name+".")
	noName(t, west, ns, "_http._tcp."+name)
	noName(t, west, ns, "east."+name)
	noName(t, west, ns, "other."+ns+".svc.clusterset.local")
	version, err := dig(t.Context(), west, ns, "dns-version.clusterset.local", "TXT")
	if err != nil || len(version) != 1 || !regexp.MustCompile(`^"\d+\.\d+\.\d+"$`).MatchString(version[0]) {
		t.Errorf("dns-version is %v (%v)", version, err)
	}
	for i, ip := range ips {
		names, err := exec(t.Context(), west, ns, "client", "dig", "+short", "-x", ip)
		if err != nil || strings.Count(names, "\n") != 0 || names == "" {
			t.Errorf("PTR records of %s are %q (%v), want one", ip, names, err)
			continue
		}
		awaitDNS(t, west, ns, names, []string{"A", "AAAA"}[i], ip)
	}
	// R27: the name is removed with the export.
	kubectl(t, east, "delete", "serviceexport", "web", "-n", ns)
	noName(t, west, ns, name)
}

const statefulSet = `
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, ipFamilyPolicy: RequireDualStack, selector: {app: db}, ports: [{name: sql, port: 5432}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: db
        image: busybox
        command: [/bin/sh, -c, 'sleep infinity']
        readinessProbe: {exec: {command: [sh, -c, 'test ! -e /tmp/unready']}, periodSeconds: 1}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: db}
`

// R42, R65, R89 to R93: identical StatefulSets in two clusters have distinct,
// individually resolvable names.
func TestDNSOfAHeadlessService(t *testing.T) {
	ns := namespace(t, "dns-headless")
	addresses := map[string][]string{} // by family
	for _, cluster := range both() {
		apply(t, cluster, ns, statefulSet)
		runClient(t, cluster, ns)
	}
	name := "db." + ns + ".svc.clusterset.local"
	byPod := map[string][]string{}
	for _, cluster := range both() {
		kubectl(t, cluster, "rollout", "status", "statefulset/db", "-n", ns, "--timeout=100s")
		for _, pod := range []string{"db-0", "db-1"} {
			ips := words(t, cluster, "get", "pod", pod, "-n", ns, "-o", "jsonpath={.status.podIPs[*].ip}")
			byPod[pod+"."+cluster.Name] = ips
			addresses["A"], addresses["AAAA"] = append(addresses["A"], ips[0]), append(addresses["AAAA"], ips[1])
		}
	}
	for _, cluster := range both() {
		awaitReady(t, cluster, ns, "db")
		if ips := kubectl(t, cluster, "get", "serviceimport", "db", "-n", ns, "-o", "jsonpath={.spec.type} {.spec.ips}"); ips != "Headless " {
			t.Errorf("IPs of the import are %q, want none", ips)
		}
		for recordType, want := range addresses {
			awaitDNS(t, cluster, ns, name, recordType, slices.Clone(want)...)
		}
		var srv []string
		for pod, ips := range byPod {
			awaitDNS(t, cluster, ns, pod+"."+name, "A", ips[0])
			awaitDNS(t, cluster, ns, pod+"."+name, "AAAA", ips[1])
			srv = append(srv, pod+"."+name+".")
		}
		awaitSRV(t, cluster, ns, "_sql._tcp."+name, "5432", srv...)
		noName(t, cluster, ns, "east."+name)
		noName(t, cluster, ns, "db-0."+name)
		noName(t, cluster, ns, "db-2.east."+name)
	}
	// R86, R93: reverse names are well formed.
	names, err := exec(t.Context(), west, ns, "client", "dig", "+short", "-x", byPod["db-0.east"][0])
	if err != nil || !strings.HasSuffix(strings.TrimSpace(names), ".") || strings.Contains(names, "..") {
		t.Errorf("PTR record of an imported Pod is %q (%v)", names, err)
	}

	// Unready Pods are removed from DNS. R90: without ready Pods, the name does not exist.
	exec0 := func(cluster *localcluster.Cluster, pod, command string) {
		t.Helper()
		if output, err := exec(t.Context(), cluster, ns, pod, "sh", "-c", command); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	exec0(east, "db-0", "touch /tmp/unready")
	noName(t, west, ns, "db-0.east."+name)
	awaitDNS(t, west, ns, name, "A", byPod["db-1.east"][0], byPod["db-0.west"][0], byPod["db-1.west"][0])
	exec0(east, "db-1", "touch /tmp/unready")
	exec0(west, "db-0", "touch /tmp/unready")
	exec0(west, "db-1", "touch /tmp/unready")
	noName(t, west, ns, name)
	// R33, R123: a cluster without ready endpoints stays listed.
	if found := kubectl(t, west, "get", "serviceimport", "db", "-n", ns, "-o", "jsonpath={.status.clusters[*].cluster}"); found != "east west" {
		t.Errorf("exporting clusters are %q", found)
	}
	exec0(east, "db-0", "rm /tmp/unready")
	awaitDNS(t, west, ns, name, "A", byPod["db-0.east"][0])
}

// R68: names of the cluster itself do not depend on mcs-apiserver.
func TestClusterLocalNamesSurviveAnOutageOfTheServer(t *testing.T) {
	ns := namespace(t, "outage")
	deploy(t, west, ns, workload(west, 1, usual))
	runClient(t, west, ns)
	kubectl(t, west, "scale", "deployment/mcs-apiserver", "-n", "mcs-system", "--replicas=0")
	t.Cleanup(func() {
		for _, args := range [][]string{{"scale", "deployment/mcs-apiserver", "--replicas=2"}, {"rollout", "status", "deployment/mcs-apiserver", "--timeout=100s"}} {
			if output, err := west.Kubectl(context.Background(), append(args, "-n", "mcs-system")...); err != nil {
				t.Errorf("%v: %s", err, output)
			}
		}
	})
	kubectl(t, west, "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=mcs-apiserver", "-n", "mcs-system", "--timeout=60s")
	kubectl(t, west, "rollout", "restart", "deployment/coredns", "-n", "kube-system")
	kubectl(t, west, "rollout", "status", "deployment/coredns", "-n", "kube-system", "--timeout=100s")
	awaitAnswers(t, west, ns, "TCP", "4", "web."+ns+".svc.cluster.local", west)
}
