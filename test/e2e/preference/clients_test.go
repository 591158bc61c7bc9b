// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package preference

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/traffic"
)

// shop is the namespace of the service.
const shop = "shop"

// server has Pods that answer with the name of their cluster, and keep answering for a while when
// they are deleted, as servers do that let clients learn about it.
const server = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 15
      containers:
      - {name: server, image: traffic, args: [serve], readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata:
  name: web
  annotations: {clusterset.mcs-apiserver.io/cluster-preference: "cluster,property:region.example.com"}
`

// client calls the service 20 times a second.
const client = `
apiVersion: v1
kind: Pod
metadata: {name: client}
spec: {containers: [{name: client, image: traffic, args: [record, web.shop.svc.clusterset.local.]}]}
`

// attempts returns all calls of the client in a cluster so far.
func attempts(ctx context.Context, cluster *localcluster.Cluster) ([]traffic.Attempt, error) {
	output, err := cluster.Kubectl(ctx, "logs", "client", "-n", shop)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, output)
	}
	var all []traffic.Attempt
	for line := range strings.Lines(output) {
		var one traffic.Attempt
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			return nil, fmt.Errorf("%w: %s", err, line)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b traffic.Attempt) int { return a.Begun.Compare(b.Begun) })
	return all, nil
}

// answering are the clusters that should answer the clients of each cluster.
type answering map[string][]string

// lately is for how long only those clusters have to have answered that should.
const lately = 2 * time.Second

// await waits until the clients get answers of those clusters that should answer, and of no other.
func (a answering) await(t *testing.T) {
	t.Helper()
	begun := time.Now()
	for _, cluster := range clusters() {
		expect.Eventually(t, fmt.Sprintf("answers of %v in %s", a[cluster.Name], cluster.Name), func(ctx context.Context) error {
			all, err := attempts(ctx, cluster)
			if err != nil {
				return err
			}
			from := map[string]int{}
			for _, attempt := range all {
				if attempt.Begun.After(begun) && time.Since(attempt.Begun) < lately {
					from[attempt.From]++
				}
			}
			if got := slices.Sorted(maps.Keys(from)); !slices.Equal(got, a[cluster.Name]) {
				return fmt.Errorf("answers came from %v", from)
			}
			if time.Since(begun) < lately {
				return errors.New("answers may change")
			}
			return nil
		})
	}
}

// row is what a client noticed of a change.
type row struct {
	change, client string
	from           map[string]int
	failed         []traffic.Attempt
	// first is when the first of those answered that should now, and did not before, and last when
	// the last of those did that should not any more, since the change began.
	first, last time.Duration
}

// table has the rows of a test.
type table struct {
	rows []row
	now  answering
}

// change makes a change, awaits the answers that it should lead to, and notes what clients noticed.
// It fails the test if a request failed.
func (table *table) change(t *testing.T, what string, then answering, make func()) {
	t.Helper()
	begun := time.Now()
	make()
	then.await(t)
	ended := time.Now()
	for _, cluster := range clusters() {
		one := table.observe(t, what, cluster, then, begun, ended)
		for _, attempt := range one.failed {
			t.Errorf("%s: request of %s at %s failed after %s: %s", what, cluster.Name, attempt.Begun.UTC().Format("15:04:05.000"), attempt.Took, attempt.Error)
		}
		table.rows = append(table.rows, one)
	}
	table.now = then
}

func (table *table) observe(t *testing.T, what string, cluster *localcluster.Cluster, then answering, begun, ended time.Time) row {
	t.Helper()
	one := row{change: what, client: cluster.Name, from: map[string]int{}}
	var all []traffic.Attempt
	expect.Eventually(t, "the end of all requests of "+cluster.Name, func(ctx context.Context) (err error) {
		if all, err = attempts(ctx, cluster); err == nil && (len(all) == 0 || all[len(all)-1].Begun.Before(ended)) {
			err = errors.New("none began since")
		}
		return err
	})
	before, after := table.now[cluster.Name], then[cluster.Name]
	for _, attempt := range all {
		since := attempt.Begun.Sub(begun)
		switch {
		case since < 0 || attempt.Begun.After(ended):
			continue
		case attempt.Error != "":
			one.failed = append(one.failed, attempt)
			continue
		case one.first == 0 && slices.Contains(after, attempt.From) && !slices.Contains(before, attempt.From):
			one.first = since
		case !slices.Contains(after, attempt.From):
			one.last = since
		}
		one.from[attempt.From]++
	}
	return one
}

// String returns the table in Markdown.
func (table *table) String() string {
	var text strings.Builder
	writer := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	fmt.Fprintln(writer, "| Change\t| Client in\t| Answers of\t| Failed\t| First of the new\t| Last of the old\t|")
	fmt.Fprintln(writer, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	for _, row := range table.rows {
		var from []string
		for _, name := range slices.Sorted(maps.Keys(row.from)) {
			from = append(from, fmt.Sprintf("%s %d", name, row.from[name]))
		}
		fmt.Fprintf(writer, "| %s\t| %s\t| %s\t| %d\t| %s\t| %s\t|\n", row.change, row.client, strings.Join(from, ", "), len(row.failed), seconds(row.first), seconds(row.last))
	}
	_ = writer.Flush() // a builder does not fail
	return text.String()
}

func seconds(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
