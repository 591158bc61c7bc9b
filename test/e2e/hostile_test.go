// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/hostile"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/traffic"
)

var attackFor = flag.Duration("attack", 30*time.Second, "For how long a hostile cluster attacks: if a minute or more, until every attack was played once.")

const (
	// bank is a namespace that the hostile cluster may not export into, and shop one that
	// it may.
	bank = "bank"
	shop = "shop" // where names collide in one of the attacks
	// lanes is how many attacks are played at the same time.
	lanes = 3
	// allAttacks is the time from which on all attacks are played.
	allAttacks = time.Minute
)

// honestServices returns the services of the honest clusters by namespace, and who exports them.
func honestServices() map[string]map[string][]string {
	return map[string]map[string][]string{
		bank: {"east": {"east"}, "west": {"west"}, "both": {"east", "west"}},
		shop: {"web": {"east", "west"}},
	}
}

// R295: while a hostile cluster plays all attacks, no lookup of a service of an honest cluster in
// another one fails, and no connection to it, and none leads to the hostile cluster. R296: imports
// of honest clusters stay as they are, endpoints of the hostile cluster are only those it may have,
// and memory is limited. R297: nothing of it is left when it is expelled.
func TestHostileClusterDoesNotInterruptTraffic(t *testing.T) {
	deployHonest(t)
	attacker := newAttacker(t)
	attacker.checkBackends(t)
	observed := observeObjects(t, attacker)
	memory := watchMemory(t)
	callers := startCallers(t)
	restarts := restartCounts(t)

	var expelled time.Time
	begun := time.Now()
	group, ctx := errgroup.WithContext(t.Context())
	ended := make(chan struct{})
	group.Go(func() error { return replaceServers(ctx, ended) })
	attacks := hostile.Attacks()
	played := 0
	group.Go(func() (err error) {
		defer close(ended)
		played, err = attacker.playAll(ctx, attacks, *attackFor, observed)
		expelled = time.Now()
		return err
	})
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d of %d attacks were played in %s, %d at a time", played, len(attacks), expelled.Sub(begun).Round(time.Second), lanes)

	callers.check(t, begun)
	observed.check(t)
	memory.check(t)
	if after := restartCounts(t); after != restarts {
		t.Errorf("containers were restarted: %s, before %s", after, restarts)
	}
	attacker.awaitNothing(t, expelled)
}

// deployHonest creates the namespaces and the services of the honest clusters, and waits until
// all of them are imported.
func deployHonest(t *testing.T) {
	t.Helper()
	for _, name := range []string{bank, shop} {
		namespace(t, name)
	}
	for _, cluster := range both() {
		apply(t, cluster, bank, strings.ReplaceAll(honestBank, "${CLUSTER}", cluster.Name))
		apply(t, cluster, shop, honestShop)
	}
	for _, cluster := range both() {
		kubectl(t, cluster, "rollout", "status", "deployment/"+cluster.Name, "-n", bank, "--timeout=100s")
		for ns, services := range honestServices() {
			for name, exporters := range services {
				awaitReady(t, cluster, ns, name)
				last := len(exporters) - 1
				kubectl(t, cluster, "wait", fmt.Sprintf("--for=jsonpath={.status.clusters[%d].cluster}=%s", last, exporters[last]), "serviceimport/"+name, "-n", ns, "--timeout=60s")
			}
		}
	}
}

// honestBank has servers that are replaced one at a time, when the next one is ready.
const honestBank = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: "${CLUSTER}"}
spec:
  replicas: 2
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec:
      containers:
      - {name: server, image: traffic, args: [serve], readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: "${CLUSTER}"}
spec: {selector: {app: server}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: "${CLUSTER}"}
---
apiVersion: v1
kind: Service
metadata: {name: both}
spec: {selector: {app: server}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: both, annotations: {clusterset.mcs-apiserver.io/use-clusterset-ip: "true"}}
`

const honestShop = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: web}
`

// replaceServers replaces the servers of the honest clusters again and again.
func replaceServers(ctx context.Context, ended <-chan struct{}) error {
	for {
		for _, cluster := range both() {
			for _, command := range []string{"restart", "status"} {
				if output, err := cluster.Kubectl(ctx, "rollout", command, "deployment/"+cluster.Name, "-n", bank); err != nil {
					return fmt.Errorf("%s: kubectl rollout %s: %w\n%s", cluster.Name, command, err, output)
				}
			}
			select {
			case <-ended:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(3 * time.Second):
			}
		}
	}
}

// restartCounts returns how often the containers of mcs-apiserver were restarted.
func restartCounts(t *testing.T) string {
	t.Helper()
	var counts []string
	for _, cluster := range both() {
		counts = append(counts, kubectl(t, cluster, "get", "pods", "-n", "mcs-system", "-o",
			"jsonpath={range .items[*]}{.metadata.name}:{.status.containerStatuses[*].restartCount} {end}"))
	}
	return strings.Join(counts, "")
}

// callers are Pods that call the services of the other cluster, and of both.
type callers []*localcluster.Cluster

// startCallers starts a caller in every cluster, and waits until all services have answered.
func startCallers(t *testing.T) callers {
	t.Helper()
	callers := callers(both())
	for _, cluster := range callers {
		apply(t, cluster, bank, fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: caller}
spec: {containers: [{name: caller, image: traffic, args: [call, %s]}]}
`, strings.Join(slices.Sorted(maps.Keys(calledBy(cluster))), ", ")))
	}
	for _, cluster := range callers {
		awaitReport(t, cluster, time.Time{})
	}
	return callers
}

// calledBy returns the hosts that are called in a cluster, and which clusters answer.
func calledBy(cluster *localcluster.Cluster) map[string][]string {
	called := map[string][]string{}
	for name, exporters := range honestServices()[bank] {
		if name != cluster.Name {
			called[name+"."+bank+".svc.clusterset.local."] = exporters
		}
	}
	return called
}

// awaitReport returns the first report of the caller in a cluster after a time.
func awaitReport(t *testing.T, cluster *localcluster.Cluster, after time.Time) traffic.Report {
	t.Helper()
	var report traffic.Report
	expect.Eventually(t, "report of the caller in "+cluster.Name, func(ctx context.Context) error {
		output, err := cluster.Kubectl(ctx, "logs", "caller", "-n", bank, "--tail=1")
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		report, err = traffic.ParseReport(output)
		if err == nil && !report.At.After(after) {
			err = fmt.Errorf("the last one is of %s", report.At)
		}
		return err
	})
	return report
}

// check fails if a call failed, or was answered by the wrong cluster.
func (c callers) check(t *testing.T, begun time.Time) {
	t.Helper()
	end := time.Now()
	for _, cluster := range c {
		report := awaitReport(t, cluster, end.Add(traffic.Timeout)) // when all calls have ended
		for host, exporters := range calledBy(cluster) {
			result := report.Hosts[host]
			t.Logf("%s calls %s: %s", cluster.Name, host, result)
			for _, problem := range result.Errors {
				t.Errorf("%s called %s at %s", cluster.Name, host, problem)
			}
			answers := 0
			for _, exporter := range exporters {
				answers += result.From[exporter]
				if result.From[exporter] == 0 {
					t.Errorf("%s called %s: no answer came from %s", cluster.Name, host, exporter)
				}
			}
			if result.Failed > 0 || result.Attempts != answers {
				t.Errorf("%s called %s: %s", cluster.Name, host, result)
			}
			if expected := int(end.Sub(begun) / traffic.Period); result.Attempts < expected/2 {
				t.Errorf("%s called %s only %d times instead of %d", cluster.Name, host, result.Attempts, expected)
			}
		}
	}
}
