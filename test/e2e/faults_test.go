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
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster/fabric"
)

func TestLinkFaults(t *testing.T) {
	ns := namespace(t, "links")
	apply(t, east, ns, server)
	apply(t, west, ns, client)
	kubectl(t, east, "rollout", "status", "deployment/web", "-n", ns, "--timeout=100s")
	kubectl(t, west, "wait", "pod/client", "-n", ns, "--for=condition=Ready", "--timeout=100s")
	ips := strings.Fields(kubectl(t, east, "get", "pods", "-l", "app=web", "-n", ns, "-o", "jsonpath={.items[0].status.podIPs[*].ip}"))
	answers := func(ip string) bool {
		output, err := exec(t.Context(), west, ns, "client", dial(ip, 8080)...)
		return err == nil && strings.HasPrefix(output, "web-")
	}
	link := [2]string{"east", "west"}
	t.Cleanup(func() {
		if err := set.Repair(context.Background(), "east", "west"); err != nil {
			t.Error(err)
		}
	})
	for _, ip := range ips {
		if !answers(ip) {
			t.Fatalf("%s does not respond before any fault", ip)
		}
	}
	impair := func(fault fabric.Fault) {
		t.Helper()
		fault.Clusters = link
		if err := set.Impair(t.Context(), fault); err != nil {
			t.Fatal(err)
		}
	}
	impair(fabric.Fault{Cut: true})
	for _, ip := range ips {
		if answers(ip) {
			t.Errorf("%s responds although the link is cut", ip)
		}
	}
	impair(fabric.Fault{Delay: 300 * time.Millisecond})
	for _, ip := range ips {
		started := time.Now()
		if !answers(ip) {
			t.Errorf("%s does not respond over a slow link", ip)
		}
		// A handshake and a response take at least two round trips, delayed in both directions.
		if took := time.Since(started); took < 4*300*time.Millisecond {
			t.Errorf("%s responds after %s: the link is not slow", ip, took)
		}
	}
	impair(fabric.Fault{Loss: 100})
	for _, ip := range ips {
		if answers(ip) {
			t.Errorf("%s responds although all packets are dropped", ip)
		}
	}
	impair(fabric.Fault{})
	for _, ip := range ips {
		if !answers(ip) {
			t.Errorf("%s does not respond after the link was repaired", ip)
		}
	}
	if err := set.Impair(t.Context(), fabric.Fault{Clusters: [2]string{"east", "south"}, Cut: true}); err == nil || !strings.Contains(err.Error(), `cluster "south" does not exist`) {
		t.Errorf("link to an unknown cluster: %v", err)
	}
}

func TestComponentsAreKilledPausedAndStarted(t *testing.T) {
	ready := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		_, err := west.Kubectl(ctx, "get", "--raw", "/readyz")
		return err
	}
	for _, component := range []string{localcluster.Etcd, localcluster.APIServer} {
		if err := west.Kill(component); err != nil {
			t.Fatal(err)
		}
		expect.Eventually(t, "outage of "+component, func(ctx context.Context) error {
			if ready(ctx) == nil {
				return errors.New("cluster is ready without the component")
			}
			return nil
		})
		if err := west.Start(t.Context(), component); err != nil {
			t.Fatal(err)
		}
		expect.Eventually(t, component, ready)
	}
	if err := west.Pause(localcluster.APIServer); err != nil {
		t.Fatal(err)
	}
	if ready(t.Context()) == nil {
		t.Error("a paused kube-apiserver responds")
	}
	if err := west.Resume(localcluster.APIServer); err != nil {
		t.Fatal(err)
	}
	expect.Eventually(t, "resumed kube-apiserver", ready)
	if err := west.Kill("no-such-thing"); err == nil || !strings.Contains(err.Error(), "use one of etcd, kube-apiserver") {
		t.Errorf("killing an unknown component: %v", err)
	}
}

// Pods are restarted when the node agent is killed and started again.
func TestNodeRecoversFromAKill(t *testing.T) {
	ns := namespace(t, "node")
	apply(t, west, ns, server)
	kubectl(t, west, "rollout", "status", "deployment/web", "-n", ns, "--timeout=100s")
	if err := west.Kill(localcluster.NodeAgent); err != nil {
		t.Fatal(err)
	}
	if err := west.Start(t.Context(), localcluster.NodeAgent); err != nil {
		t.Fatal(err)
	}
	expect.Eventually(t, "Pods", func(ctx context.Context) error {
		name, err := west.Kubectl(ctx, "get", "pods", "-n", ns, "-o", "jsonpath={.items[0].metadata.name}")
		if err != nil {
			return err
		}
		output, err := exec(ctx, west, ns, strings.TrimSpace(name), "hostname")
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
}

// Starting running clusters changes nothing.
func TestUpIsIdempotent(t *testing.T) {
	before, err := east.Component(localcluster.APIServer)
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := before.Running()
	started := time.Now()
	if err := set.Up(t.Context(), "east", "west"); err != nil {
		t.Fatal(err)
	}
	t.Logf("the second up took %s", time.Since(started).Round(time.Millisecond))
	if again, running := before.Running(); !running || again != pid {
		t.Errorf("process of the kube-apiserver was %d, is %d", pid, again)
	}
}
