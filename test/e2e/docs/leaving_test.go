// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// leaving takes names out of DNS, and the west out of the ClusterSet. It leaves nothing in the
// west but what is stored.
var leaving = []step{
	{"DNS", func(t *testing.T, u *user) {
		for _, cluster := range []*localcluster.Cluster{east, west} {
			forgetNames(t, cluster)
		}
		output := u.follow(t, east, clusterSets, "DNS")
		expect.Contains(t, output, "Plan:", "serves clusterset.local")
		expect.Lacks(t, corefile(t, east), "clusterset.local")
		kubectl(t, "mcs", "dns", "enable", "--context", "west", "--yes")
	}},
	{"uninstalling", func(t *testing.T, u *user) {
		blocks := u.commands.Under(t, operations, "Uninstalling")
		u.enter(t, west, blocks[0])
		expect.Lacks(t, corefile(t, west), "clusterset.local")
		u.enter(t, west, blocks[1])
		left := west.MustKubectl(t, "get", "-o", "name", "namespaces,apiservices,clusterroles,clusterrolebindings,validatingadmissionpolicies")
		expect.Lacks(t, left, "mcs-system", "multicluster", "mcs-apiserver", "mcs-controller")
		expect.Contains(t, left, "mcs-storage")
		expect.Lacks(t, east.MustKubectl(t, "get", "members"), "west")
	}},
}

// corefile returns that of a cluster.
func corefile(t *testing.T, of *localcluster.Cluster) string {
	t.Helper()
	return of.MustKubectl(t, "get", "configmap", "coredns", "-n", "kube-system", "-o", "jsonpath={.data.Corefile}")
}

// forgetNames lets CoreDNS serve the names of the cluster alone.
func forgetNames(t *testing.T, in *localcluster.Cluster) {
	t.Helper()
	text := expect.Must(os.ReadFile(filepath.Join(set.Root, "test", "framework", "localcluster", "manifests", "Corefile")))(t)
	patch := expect.Must(json.Marshal(map[string]any{"data": map[string]string{"Corefile": string(text)}}))(t)
	in.MustKubectl(t, "patch", "configmap", "coredns", "-n", "kube-system", "--type=merge", "--patch="+string(patch))
	in.MustKubectl(t, "rollout", "restart", "deployment/coredns", "-n", "kube-system")
	in.MustKubectl(t, "rollout", "status", "deployment/coredns", "-n", "kube-system", "--timeout=100s")
}
