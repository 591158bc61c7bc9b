// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeagent

import (
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

// testServices reaches Pods through the IPs of a Service with a real kube-proxy, from
// other Pods and from the Pods behind the Service.
func testServices(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil {
		t.Fatal("kube-proxy requires nft of the package nftables")
	}
	proxy, err := process.Start(process.Command{
		Name: "kube-proxy",
		Path: filepath.Join(suite.root, "bin", "kubernetes", "kube-proxy"),
		Args: []string{
			"--kubeconfig=" + suite.plane.AdminKubeconfig(), "--hostname-override=" + nodeName,
			"--proxy-mode=nftables", "--cluster-cidr=10.81.0.0/16,fd00:81::/64",
			// Settings of the whole machine must not be changed by a test.
			"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0",
		},
		Log: path("kube-proxy.log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Stop(stopPatience) })

	n := newNamespace(t, "services")
	n.apply(deployment)
	n.apply(sleeper)
	n.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
	n.await("condition=Ready", "pod/pod")
	web := strings.Fields(n.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}"))
	for _, ip := range strings.Fields(n.jsonpath("service/web", ".spec.clusterIPs[*]")) {
		url := "http://" + net.JoinHostPort(ip, "80")
		for _, client := range append(web, "pod") {
			// All Pods respond in turn, including the client itself.
			for _, server := range web {
				n.eventually(client+" reaches "+server+" through "+ip, func() bool {
					stdout, _, code := n.try("", "exec", client, "--", webServer, url)
					return code == 0 && strings.HasPrefix(stdout, server+" ")
				})
			}
		}
	}
	n.contains(n.exec("pod", "kubectl", "get", "--raw", "/readyz"), "ok")
}
