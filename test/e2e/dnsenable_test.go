// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// usualCorefile is that of kubeadm, but for shorter intervals, and without a server to
// forward queries to. Its last line has no line break.
const usualCorefile = `.:53 {
    errors
    health {
       lameduck 1s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods verified
       fallthrough in-addr.arpa ip6.arpa
       ttl 1
    }
    prometheus :9153
    cache 1
    loop
    reload 2s 1s
    loadbalance
} # end`

// R377, R379, R381 to R384, R406: one command makes names of the ClusterSet resolvable,
// another one reports problems, and a third one restores the Corefile.
func TestDNSIsEnabledWithOneCommand(t *testing.T) {
	ns := namespace(t, "dns-enable")
	deploy(t, east, ns, workload(east, 1, usual)+"---"+exportWeb)
	apply(t, east, ns, statefulSet)
	runClient(t, west, ns)
	awaitReady(t, west, ns, "web")
	awaitReady(t, west, ns, "db")
	kubectl(t, east, "rollout", "status", "statefulset/db", "-n", ns, "--timeout=100s")
	const corefile = "jsonpath={.data.Corefile}"
	before := kubectl(t, west, "get", "configmap", "coredns", "-n", "kube-system", "-o", corefile)
	write := func(text string) []string {
		patch := expect.Must(json.Marshal(map[string]any{"data": map[string]string{"Corefile": text}}))(t)
		return []string{"patch", "configmap", "coredns", "--type=merge", "--patch=" + string(patch)}
	}
	configure := func(ctx context.Context, text string) {
		t.Helper()
		for _, args := range [][]string{
			write(text),
			{"rollout", "restart", "deployment/coredns"},
			{"rollout", "status", "deployment/coredns", "--timeout=100s"},
		} {
			if output, err := west.Kubectl(ctx, append(args, "-n", "kube-system")...); err != nil {
				t.Fatalf("%v: %s", err, output)
			}
		}
	}
	t.Cleanup(func() { configure(context.Background(), before) })
	configure(t.Context(), usualCorefile)
	// The installation lets CoreDNS read ServiceImports.
	kubectl(t, west, "delete", "clusterrolebinding", "mcs-apiserver:coredns")
	t.Cleanup(func() {
		if output, err := west.Kubectl(context.Background(), "create", "clusterrolebinding", "mcs-apiserver:coredns", "--clusterrole=mcs-apiserver:coredns", "--serviceaccount=kube-system:coredns"); err != nil {
			t.Errorf("%v: %s", err, output)
		}
	})
	dns := func(succeeds bool, args ...string) string {
		t.Helper()
		output, err := set.Kubectl(t.Context(), append([]string{"mcs", "--context", "west", "dns"}, args...)...)
		if (err == nil) != succeeds {
			t.Fatalf("kubectl mcs dns %q: %v\n%s", args, err, output)
		}
		return output
	}
	for _, want := range []string{"has no server block", "has no permission", "run `kubectl mcs dns enable --context west`"} {
		if output := dns(false, "check"); !strings.Contains(output, want) {
			t.Errorf("%q is missing in:\n%s", want, output)
		}
	}
	// CoreDNS rejects the Corefile that results, and keeps the one that it has.
	rejected := usualCorefile + "\ninvalid.example {\n    unknown\n}"
	kubectl(t, west, append(write(rejected), "-n", "kube-system")...)
	if output := dns(false, "enable", "--yes", "--timeout=15s"); !strings.Contains(output, "no Pod uses the change, so that key Corefile of ConfigMap kube-system/coredns was restored") {
		t.Errorf("got %s", output)
	}
	if after := kubectl(t, west, "get", "configmap", "coredns", "-n", "kube-system", "-o", corefile); after != rejected {
		t.Errorf("the Corefile was not restored:\n%s", after)
	}
	kubectl(t, west, append(write(usualCorefile), "-n", "kube-system")...)
	t.Log(dns(true, "enable", "--yes"))
	name := clusterSetName(ns)
	ips := words(t, west, "get", "serviceimport", "web", "-n", ns, "-o", "jsonpath={.spec.ips[*]}")
	awaitDNS(t, west, ns, name, "A", ips[0])
	// R406: endpoints of imports are served, although those of the cluster are not watched.
	pod := words(t, east, "get", "pod", "db-0", "-n", ns, "-o", "jsonpath={.status.podIPs[*].ip}")
	awaitDNS(t, west, ns, "db-0.east.db."+ns+".svc.clusterset.local", "A", pod[0])
	if output := dns(true, "check"); !strings.Contains(output, "serves clusterset.local: ") {
		t.Errorf("no name was resolved:\n%s", output)
	}
	if output := dns(true, "enable", "--dry-run"); !strings.Contains(output, "already enabled") {
		t.Errorf("got %s", output)
	}
	t.Log(dns(true, "disable", "--yes"))
	if after := kubectl(t, west, "get", "configmap", "coredns", "-n", "kube-system", "-o", corefile); after != usualCorefile {
		t.Errorf("the Corefile was not restored:\n%s", after)
	}
	if output, err := west.Kubectl(t.Context(), "get", "clusterrolebinding,clusterrole", "mcs-apiserver:dns:kube-system:coredns"); err == nil {
		t.Errorf("the permission was not revoked: %s", output)
	}
}
