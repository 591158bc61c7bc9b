// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/clusters"
)

// R89, R91, R92: a headless service of a hundred endpoints in three clusters is
// answered for completely.
func TestDNSOfAHundredEndpointsInThreeClusters(t *testing.T) {
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
	ns := namespace(t, "hundred")
	kubectl(t, north, "create", "namespace", ns)
	var all, targets []string
	name := "db." + ns + ".svc.clusterset.local"
	for number, cluster := range []*clusters.Cluster{east, west, north} {
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
