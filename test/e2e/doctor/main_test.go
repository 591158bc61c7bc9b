// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package doctor breaks a service in all ways that kubectl mcs doctor knows on whole clusters, and
// checks that it names exactly that.
package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// namespace has the service that is broken. East exports it, and west imports it.
const namespace = "doctor"

var (
	set        *localcluster.Set
	east, west *localcluster.Cluster
)

func TestMain(m *testing.M) { os.Exit(localcluster.RunTests(m, start)) }

func start(ctx context.Context, clusters *localcluster.Set) (err error) {
	set = clusters
	if err := set.Up(ctx, "east", "west"); err != nil {
		return err
	}
	if err := set.Join(ctx, "doctor"); err != nil {
		return err
	}
	if east, err = set.Cluster("east"); err != nil {
		return err
	}
	west, err = set.Cluster("west")
	return err
}

// service is a Deployment, its Service and its export.
const service = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: tcp
        image: alpine/socat
        command: [/bin/sh, -c, 'exec socat TCP6-LISTEN:8080,fork,reuseaddr,ipv6only=0 SYSTEM:"echo web"']
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: tcp, port: 80, targetPort: 8080}]}
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: web}
`

// deploy exports the service from the east.
func deploy(t *testing.T, namespace string) {
	t.Helper()
	apply(t, east, namespace, service)
	east.MustKubectl(t, "rollout", "status", "deployment/web", "-n", namespace, "--timeout=100s")
}

func apply(t *testing.T, cluster *localcluster.Cluster, namespace, manifests string) {
	t.Helper()
	cluster.MustKubectl(t, "apply", "-n", namespace, "-f", expect.Manifest(t, "%s", manifests))
}

// finding is what is used of a check in the report.
type finding struct {
	Hop, Result, ConsequenceOf, Context, Cluster, Reason, Message, Remedy, Command, Documentation string
}

// report is what is used of the report.
type report struct {
	Verdict     string
	FirstBroken *finding
	Responds    bool
	Checks      []finding
}

// see runs the doctor in the west.
func see(ctx context.Context, namespace string, args ...string) (report, error) {
	output, err := set.Kubectl(ctx, append([]string{"mcs", "doctor", "web", "-n", namespace, "--context", "west", "-o", "json"}, args...)...)
	var seen report
	at := strings.Index(output, "{\n") // what it does is printed before
	if at < 0 {
		return seen, fmt.Errorf("no report: %w: %s", err, output)
	}
	if decoding := json.NewDecoder(strings.NewReader(output[at:])).Decode(&seen); decoding != nil {
		return seen, fmt.Errorf("%w in %s", decoding, output)
	}
	if code := map[string]int{"OK": 0, "Broken": 1, "Unknown": 2}[seen.Verdict]; code != exitCode(err) {
		return seen, fmt.Errorf("verdict %s with exit code %d: %s", seen.Verdict, exitCode(err), output)
	}
	return seen, nil
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if exited, ok := err.(*osexec.ExitError); ok { //nolint:errorlint // it is not wrapped
		return exited.ExitCode()
	}
	return -1
}

// healthy waits until nothing is broken, and the service responds.
func healthy(t *testing.T, namespace string) {
	t.Helper()
	expect.Within(t, 2*time.Minute, "service that responds", func(ctx context.Context) error {
		seen, err := see(ctx, namespace, "--contexts", "east")
		if err == nil && (seen.Verdict != "OK" || !seen.Responds) {
			err = fmt.Errorf("verdict %s, first broken %+v", seen.Verdict, seen.FirstBroken)
		}
		return err
	})
}

// inNode runs a command in the network of the node of a cluster, where its kube-proxy runs.
func inNode(t *testing.T, cluster *localcluster.Cluster, input string, command ...string) {
	t.Helper()
	pids := expect.Must(cluster.Processes("kube-proxy"))(t)
	if len(pids) == 0 {
		t.Fatalf("%s has no kube-proxy", cluster.Name)
	}
	cmd := osexec.CommandContext(context.WithoutCancel(t.Context()), "nsenter", append([]string{"--target", strconv.Itoa(pids[0]), "--net", "--"}, command...)...)
	cmd.Stdin = strings.NewReader(input)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(command, " "), err, output)
	}
}

// after runs kubectl in a cluster when the test ends.
func after(t *testing.T, cluster *localcluster.Cluster, args ...string) {
	t.Helper()
	t.Cleanup(func() {
		if output, err := cluster.Kubectl(context.Background(), args...); err != nil {
			t.Errorf("kubectl %s: %v: %s", strings.Join(args, " "), err, output)
		}
	})
}
