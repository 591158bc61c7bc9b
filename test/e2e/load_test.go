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

// outcome is the result of a series of requests.
type outcome struct {
	requests, failed int
	// from counts responses by the first part of the Pod's name.
	from map[string]int
}

// load sends requests from a Pod to an address, one after the other, until the
// returned function is called.
func load(t *testing.T, cluster *localcluster.Cluster, ns, host string) (stop func() outcome) {
	t.Helper()
	marker := "/tmp/stop-" + strings.ReplaceAll(host, ".", "-")
	script := fmt.Sprintf("while [ ! -e %s ]; do socat -u -4 -T3 TCP:%s:80,connect-timeout=1 - 2>/dev/null || echo failed-; done", marker, host)
	result := make(chan outcome, 1)
	go func() {
		output, _ := exec(context.Background(), cluster, ns, "client", "sh", "-c", script)
		counted := outcome{from: map[string]int{}}
		for line := range strings.Lines(output) {
			name, _, _ := strings.Cut(strings.TrimSpace(line), "-")
			counted.requests++
			if name == "failed" {
				counted.failed++
			} else {
				counted.from[name]++
			}
		}
		result <- counted
	}()
	return func() outcome {
		t.Helper()
		if output, err := exec(t.Context(), cluster, ns, "client", "touch", marker); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		return <-result
	}
}

// R48, R136: a service moves from one cluster to another under load. Its name and
// IP stay, and no request fails.
func TestServiceMovesUnderLoad(t *testing.T) {
	ns := namespace(t, "moving")
	deploy(t, east, ns, workload(east, 2, usual)+"---"+exportWeb)
	runClient(t, west, ns)
	awaitReady(t, west, ns, "web")
	awaitAnswers(t, west, ns, "TCP", "4", clusterSetName(ns), east)
	ip := kubectl(t, west, "get", "serviceimport", "web", "-n", ns, "-o", "jsonpath={.spec.ips}")
	stop := load(t, west, ns, clusterSetName(ns))
	deploy(t, west, ns, workload(west, 2, usual)+"---"+exportWeb)
	kubectl(t, west, "wait", "--for=jsonpath={.status.clusters[1].cluster}=west", "serviceimport/web", "-n", ns, "--timeout=60s")
	awaitSlices(t, west, ns, 4)
	awaitAnswers(t, west, ns, "TCP", "6", clusterSetName(ns), east, west)
	kubectl(t, east, "delete", "serviceexport", "web", "-n", ns)
	awaitSlices(t, west, ns, 2)
	awaitOnlyWest(t, west, ns)
	result := stop()
	t.Logf("%+v", result)
	if result.failed > 0 || result.from["east"] == 0 || result.from["west"] == 0 {
		t.Errorf("%d of %d requests failed; responses came from %v", result.failed, result.requests, result.from)
	}
	if after := kubectl(t, west, "get", "serviceimport", "web", "-n", ns, "-o", "jsonpath={.spec.ips}"); after != ip {
		t.Errorf("IPs were %s, are %s", ip, after)
	}
}

// R78: deleting a Pod in another cluster fails no greater share of requests than deleting one
// in the same cluster. Both are measured in the same run.
func TestDeletedPodFailsNoMoreRequestsThanInOneCluster(t *testing.T) {
	const deletions = 5
	ns := namespace(t, "deleting")
	deploy(t, east, ns, workload(east, 2, usual)+"---"+exportWeb)
	runClient(t, east, ns)
	runClient(t, west, ns)
	awaitReady(t, west, ns, "web")
	awaitAnswers(t, west, ns, "TCP", "4", clusterSetName(ns), east)
	local := "web." + ns + ".svc.cluster.local"
	awaitAnswers(t, east, ns, "TCP", "4", local, east)
	stopWest, stopEast := load(t, west, ns, clusterSetName(ns)), load(t, east, ns, local)
	for range deletions {
		pod := words(t, east, "get", "pods", "-n", ns, "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}")[0]
		kubectl(t, east, "delete", "pod", pod, "-n", ns)
		kubectl(t, east, "rollout", "status", "deployment/east", "-n", ns, "--timeout=100s")
	}
	across, within := stopWest(), stopEast()
	t.Logf("across clusters %+v, within one %+v", across, within)
	if across.requests == 0 || within.requests == 0 {
		t.Fatal("no requests were measured")
	}
	// The clients do not send equally many requests, so that of the client across clusters the same share may
	// fail. Each deletion may fail one more request during the propagation delay.
	if (across.failed-deletions)*within.requests > within.failed*across.requests {
		t.Errorf("%d of %d requests failed across clusters, %d of %d within one", across.failed, across.requests, within.failed, within.requests)
	}
}

// R61, R76: the traffic distribution of the import, which is that of the oldest
// export, applies in all clusters, including those that did not set one.
func TestTrafficDistributionFollowsTheOldestExport(t *testing.T) {
	for zone, cluster := range map[string]*localcluster.Cluster{"zone-a": east, "zone-b": west} {
		kubectl(t, cluster, "label", "node", "node-1", "topology.kubernetes.io/zone="+zone, "--overwrite")
	}
	t.Cleanup(func() {
		for _, cluster := range both() {
			_, _ = cluster.Kubectl(context.Background(), "label", "node", "node-1", "topology.kubernetes.io/zone-")
		}
	})
	ns := namespace(t, "zones")
	deploy(t, east, ns, workload(east, 1, usual+`, trafficDistribution: PreferSameZone`)+"---"+exportWeb)
	runClient(t, west, ns)
	awaitReady(t, west, ns, "web")
	awaitAnswers(t, west, ns, "TCP", "4", clusterSetName(ns), east) // no nearer endpoint exists
	deploy(t, west, ns, workload(west, 1, usual)+"---"+exportWeb)
	awaitSlices(t, west, ns, 4)
	awaitOnlyWest(t, west, ns)
	onlyFrom(t, west, ns, clusterSetName(ns), 80, 15, west)
	// Without the oldest export, the distribution of west applies, which has none.
	kubectl(t, east, "delete", "serviceexport", "web", "-n", ns)
	awaitExporter(t, west, ns, west)
	expect.Eventually(t, "removal of hints", func(ctx context.Context) error {
		output, err := west.Kubectl(ctx, "get", "endpointslices", "-n", ns, "-l", "multicluster.kubernetes.io/service-name=web", "-o", "jsonpath={.items[*].endpoints[*].hints}")
		if err == nil && output != "" {
			err = fmt.Errorf("hints: %s", output)
		}
		return err
	})
	apply(t, east, ns, exportWeb)
	awaitAnswers(t, west, ns, "TCP", "4", clusterSetName(ns), east, west)
}

// R44, R46: NodePort and LoadBalancer Services are exported like others and are not
// written. R38: SCTP ports are imported.
func TestNodePortAndLoadBalancerServicesAreExported(t *testing.T) {
	ns := namespace(t, "outside")
	for _, serviceType := range []string{"NodePort", "LoadBalancer"} {
		name := strings.ToLower(serviceType)
		apply(t, east, ns, fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %[1]s}\nspec: {type: %[2]s, selector: {app: web}, ports: [{name: tcp, port: 80}, {name: sctp, port: 81, protocol: SCTP}]}\n", name, serviceType))
		before := kubectl(t, east, "get", "service", name, "-n", ns, "-o", "jsonpath={.metadata.resourceVersion}")
		apply(t, east, ns, fmt.Sprintf("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %[1]s-hand, labels: {kubernetes.io/service-name: %[1]s}}\naddressType: IPv4\nports: [{name: tcp, port: 8080}, {name: sctp, port: 8081, protocol: SCTP}]\nendpoints: [{addresses: [10.77.9.9]}]\n", name))
		apply(t, east, ns, strings.Replace(exportWeb, "{name: web}", "{name: "+name+"}", 1))
		awaitReady(t, west, ns, name)
		got := kubectl(t, west, "get", "serviceimport", name, "-n", ns, "-o", "jsonpath={.spec.type} {.spec.ports[*].protocol}")
		if got != "ClusterSetIP TCP SCTP" {
			t.Errorf("import is %q", got)
		}
		derived := kubectl(t, west, "get", "service", "-n", ns, "-l", "multicluster.kubernetes.io/service-name="+name, "-o", "jsonpath={.items[0].spec.type} {.items[0].spec.ports[*].nodePort}")
		if strings.TrimSpace(derived) != "ClusterIP" {
			t.Errorf("derived Service is %q", derived)
		}
		expect.Eventually(t, "ports of the slice", func(ctx context.Context) error {
			ports, err := west.Kubectl(ctx, "get", "endpointslices", "-n", ns, "-l", "multicluster.kubernetes.io/service-name="+name, "-o", "jsonpath={range .items[*].ports[*]}{.name}/{.protocol}/{.port} {end}")
			if err != nil || !strings.Contains(ports, "sctp/SCTP/8081 ") {
				err = fmt.Errorf("%q: %w", ports, err)
			}
			return err
		})
		if after := kubectl(t, east, "get", "service", name, "-n", ns, "-o", "jsonpath={.metadata.resourceVersion}"); after != before {
			t.Errorf("Service was written: version %s became %s", before, after)
		}
	}
}
