// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// manyImports is the number of imports during the measurement.
const manyImports = 300

// R137: measures the cost of imports for the cluster's own Services: the time until a
// new Service is reachable, without imports and with many, in the same run.
func TestImportsCostLocalServicesLittle(t *testing.T) {
	ns := namespace(t, "scale")
	deploy(t, west, ns, workload(west, 1, usual))
	runClient(t, west, ns)
	awaitAnswers(t, west, ns, "TCP", "4", "web."+ns+".svc.cluster.local", west)
	without := reachTimes(t, ns, "without")

	var manifests []string
	for i := range manyImports {
		manifests = append(manifests, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: many-%[1]d}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: many-%[1]d, labels: {kubernetes.io/service-name: many-%[1]d}}
addressType: IPv4
ports: [{name: "", port: 80}]
endpoints: [{addresses: [10.77.8.1]}, {addresses: [10.77.8.2]}]
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: many-%[1]d}
`, i))
	}
	apply(t, east, ns, strings.Join(manifests, "---"))
	expect.Eventually(t, "all imports", func(ctx context.Context) error {
		output, err := west.Kubectl(ctx, "get", "endpointslices", "-n", ns, "-l", "multicluster.kubernetes.io/source-cluster=east", "-o", "name")
		if found := strings.Count(output, "\n"); err == nil && found != manyImports {
			err = fmt.Errorf("%d of %d", found, manyImports)
		}
		return err
	})
	with := reachTimes(t, ns, "with")
	ratio := float64(with) / float64(without)
	t.Logf("a new Service is reachable after %s without imports and after %s with %d imports: %.2f times as long", without.Round(time.Millisecond), with.Round(time.Millisecond), manyImports, ratio)
	if ratio > 5 {
		t.Errorf("with imports, a new Service takes %.1f times as long to be reachable", ratio)
	}
}

// reachTimes returns the median time until a new Service is reachable.
func reachTimes(t *testing.T, ns, name string) time.Duration {
	t.Helper()
	var times []time.Duration
	for i := range 5 {
		service := fmt.Sprintf("%s-%d", name, i)
		start := time.Now()
		apply(t, west, ns, fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}\n", service))
		ip := kubectl(t, west, "get", "service", service, "-n", ns, "-o", "jsonpath={.spec.clusterIP}")
		expect.Eventually(t, "response of "+service, func(ctx context.Context) error {
			answer, err := ask(ctx, west, ns, "TCP", "4", ip, 80)
			if err == nil && !strings.HasPrefix(answer, "west-") {
				err = fmt.Errorf("response is %q", answer)
			}
			return err
		})
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return times[len(times)/2]
}
