// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	osexec "os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

func clusterSetName(ns string) string { return "web." + ns + ".svc.clusterset.local" }

// R41, R47, R49, R64, R135: the first case of the KEP's test plan: a service that only
// the other cluster has is reachable by name, over both protocols and IP families.
func TestServiceIsImportedFromTheOtherCluster(t *testing.T) {
	ns := namespace(t, "imported")
	deploy(t, east, ns, workload(east, 2, usual)+"---"+exportWeb)
	runClient(t, west, ns)
	awaitReady(t, west, ns, "web")
	for _, family := range []string{"4", "6"} {
		for _, protocol := range []string{"TCP", "UDP"} {
			awaitAnswers(t, west, ns, protocol, family, clusterSetName(ns), east)
		}
	}
	// DNS returns the IPs of the import.
	ips := strings.Fields(kubectl(t, west, "get", "serviceimport", "web", "-n", ns, "-o", "jsonpath={.spec.ips[*]}"))
	if len(ips) != 2 {
		t.Fatalf("import has IPs %v, want one per family", ips)
	}
	for i, recordType := range []string{"A", "AAAA"} {
		answers, err := dig(t.Context(), west, ns, clusterSetName(ns), recordType)
		if err != nil || len(answers) != 1 || answers[0] != ips[i] {
			t.Errorf("DNS answers %v (%v), want %s", answers, err, ips[i])
		}
	}
}

// R10, R46, R67, R135: the second case: a Service of the same name that this cluster
// does not export is unchanged and receives no ClusterSet traffic.
func TestLocalServiceOfTheSameNameIsUnchanged(t *testing.T) {
	ns := namespace(t, "untouched")
	deploy(t, west, ns, workload(west, 1, usual))
	runClient(t, west, ns)
	local := "web." + ns + ".svc.cluster.local"
	awaitAnswers(t, west, ns, "TCP", "4", local, west)
	before := kubectl(t, west, "get", "service,endpointslices", "-n", ns, "-o", "jsonpath={range .items[*]}{.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}")
	deploy(t, east, ns, workload(east, 1, usual)+"---"+exportWeb)
	awaitReady(t, west, ns, "web")
	awaitAnswers(t, west, ns, "TCP", "4", clusterSetName(ns), east)
	onlyFrom(t, west, ns, clusterSetName(ns), 80, 10, east)
	onlyFrom(t, west, ns, local, 80, 10, west)
	for line := range strings.Lines(before) {
		name := strings.Fields(line)[0]
		after := kubectl(t, west, "get", "service,endpointslices", "-n", ns, "-o", "jsonpath={range .items[*]}{.metadata.name} {.metadata.resourceVersion}{\"\\n\"}{end}")
		if !strings.Contains(after, line) {
			t.Errorf("%s was written: version was %q, versions are now\n%s", name, line, after)
		}
	}
	kubectl(t, east, "delete", "serviceexport", "web", "-n", ns)
	kubectl(t, west, "wait", "--for=delete", "serviceimport/web", "-n", ns, "--timeout=60s")
	onlyFrom(t, west, ns, local, 80, 5, west)
}

// proxyMode returns the mode of kube-proxy in a cluster.
func proxyMode(t *testing.T, cluster *localcluster.Cluster) string {
	t.Helper()
	pids := expect.Must(cluster.Processes("kube-proxy"))(t)
	if len(pids) != 1 {
		t.Fatalf("%s has %d processes of kube-proxy, want 1", cluster.Name, len(pids))
	}
	inside := []string{"--target", strconv.Itoa(pids[0]), "--net", "curl", "-sS", "http://127.0.0.1:10249/proxyMode"}
	return string(expect.Must(osexec.CommandContext(t.Context(), "nsenter", inside...).Output())(t))
}

// R28, R49, R50, R63, R135: the third case: a service that both clusters export is
// reached in both, from both, through an IP of each importing cluster. R441: kube-proxy has another
// mode in each of them.
func TestServiceOfBothClustersIsCombined(t *testing.T) {
	if modes := proxyMode(t, east) + " " + proxyMode(t, west); modes != "nftables iptables" {
		t.Errorf("modes of kube-proxy are %s", modes)
	}
	ns := namespace(t, "combined")
	for _, cluster := range both() {
		deploy(t, cluster, ns, workload(cluster, 1, usual)+"---"+exportWeb)
		runClient(t, cluster, ns)
	}
	for _, cluster := range both() {
		awaitReady(t, cluster, ns, "web")
		for _, family := range []string{"4", "6"} {
			for _, protocol := range []string{"TCP", "UDP"} {
				awaitAnswers(t, cluster, ns, protocol, family, clusterSetName(ns), east, west)
			}
		}
		onlyFrom(t, cluster, ns, "web."+ns+".svc.cluster.local", 80, 10, cluster)
	}
	ips := map[string]bool{}
	for _, cluster := range both() {
		ips[kubectl(t, cluster, "get", "serviceimport", "web", "-n", ns, "-o", "jsonpath={.spec.ips[0]}")] = true
	}
	if len(ips) != 2 {
		t.Errorf("IPs are %v, want a different IP in each cluster", ips)
	}
	// R74: a cluster that withdraws its export receives no traffic.
	kubectl(t, west, "delete", "serviceexport", "web", "-n", ns)
	awaitExporter(t, east, ns, east)
	awaitSlices(t, east, ns, 2) // one per IP family of east
	onlyFrom(t, east, ns, clusterSetName(ns), 80, 10, east)
}

// R60: the same port under another name, and another port under the same name, each
// lead only to the clusters that serve them.
func TestPortsLeadOnlyToClustersThatServeThem(t *testing.T) {
	ns := namespace(t, "ports")
	deploy(t, east, ns, workload(east, 1, `ports: [{name: http, port: 80, targetPort: 8080}]`)+"---"+exportWeb)
	runClient(t, west, ns)
	awaitReady(t, west, ns, "web")
	deploy(t, west, ns, workload(west, 1, `ports: [{name: http, port: 81, targetPort: 8080}, {name: other, port: 82, targetPort: 8080}, {name: web, port: 80, targetPort: 8080}]`)+"---"+exportWeb)
	kubectl(t, west, "wait", "--for=jsonpath={.spec.ports[1].port}=82", "serviceimport/web", "-n", ns, "--timeout=60s")
	awaitAnswers(t, west, ns, "TCP", "4", clusterSetName(ns), east, west) // 80 in both, under two names
	expect.Eventually(t, "port 82", func(ctx context.Context) error {
		answer, err := ask(ctx, west, ns, "TCP", "4", clusterSetName(ns), 82)
		if err == nil && !strings.HasPrefix(answer, "west-") {
			err = fmt.Errorf("response is %q", answer)
		}
		return err
	})
	onlyFrom(t, west, ns, clusterSetName(ns), 82, 10, west)
	if answer, err := ask(t.Context(), west, ns, "TCP", "4", clusterSetName(ns), 81); err == nil {
		t.Errorf("port 81, which is not in the import, responds with %q", answer)
	}
}
