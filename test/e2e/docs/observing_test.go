// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

const (
	operations = "docs/operations.md"
	runbooks   = "docs/runbooks.md"
)

// observing is what finds out how clusters are. It changes nothing.
var observing = []step{
	{"versions", func(t *testing.T, u *user) {
		expect.Contains(t, u.follow(t, west, "docs/releases.md", "Versions"), "Client: v", "\nContext east: mcs-apiserver v", "\nMEMBER   STATE       VERSION\n", "\nwest     Connected   v")
	}},
	{"longest token of a provider", func(t *testing.T, u *user) {
		until := u.follow(t, east, "docs/install.md", "Providers")
		if _, err := time.Parse(time.RFC3339, strings.TrimSpace(until)); err != nil {
			t.Error(err)
		}
	}},
	{"doctor", func(t *testing.T, u *user) {
		output := u.follow(t, north, operations, "Why a service does not respond")
		if count := strings.Count(output, "Nothing is broken"); count != 3 {
			t.Errorf("nothing is broken in %d of 3 reports", count)
		}
	}},
	{"test", func(t *testing.T, u *user) {
		output := u.follow(t, north, operations, "Testing a ClusterSet")
		expect.Contains(t, output, "Server by server (headless)\nFROM   TO     DNS/IPv4   DNS/IPv6   TCP/IPv4   UDP/IPv4   TCP/IPv6   UDP/IPv6\n", "\neast   west ")
		expect.Lacks(t, output, "failed")
	}},
	{"gather", func(t *testing.T, u *user) {
		expect.Contains(t, u.follow(t, north, operations, "Support bundles"), "east", "west", "clusterset/members.json")
	}},
	{"page", func(t *testing.T, u *user) {
		// Each command serves the page until it is interrupted.
		shell := u.shell(t, east)
		shell.Prelude = "kubectl() { timeout --signal=INT --preserve-status 5 kubectl \"$@\"; }\n"
		output := u.commands.Run(t, shell, u.commands.Under(t, operations, "A page")...)
		if count := strings.Count(output, "Serving the ClusterSet, as the cluster of context east sees it, at:\n\n  http://"); count != 4 {
			t.Errorf("the page was served %d times, want 4:\n%s", count, output)
		}
		expect.Contains(t, output, ":8001/")
	}},
	{"metrics", func(t *testing.T, u *user) {
		expect.Contains(t, u.follow(t, west, operations, "Metrics"), "\nmcs_apiserver_cluster_info{", "\nmcs_controller_")
	}},
	{"alerts", func(t *testing.T, u *user) {
		expect.Contains(t, u.follow(t, west, operations, "Alerts"), " by (site, ", " on (site")
	}},
	{"runbooks", func(t *testing.T, u *user) {
		for alert, want := range map[string][]string{
			"MCSAPIServerDown":              {"2/2     Running", "v1beta1.multicluster.x-k8s.io", "[pod/mcs-apiserver-"},
			"MCSNoLeader":                   {"holderIdentity: ", "[pod/mcs-apiserver-"},
			"MCSAPINotRegistered":           {"Nothing is broken", "v1beta1.multicluster.x-k8s.io"},
			"MCSStorageUnavailable":         {"No resources found"},
			"MCSServingCertificateExpires":  {"notAfter=", "/mcs-controller]"},
			"MCSMemberSilent":               {"north   production   Connected", "Reachable"},
			"MCSMemberLost":                 {"Name:         north"},
			"MCSMemberCredentialNotRenewed": {"No resources found"},
			"MCSExportsConflict":            {"Name:         web"},
		} {
			t.Run(alert, func(t *testing.T) { expect.Contains(t, u.follow(t, east, runbooks, alert), want...) })
		}
	}},
	{"upgrading", func(t *testing.T, u *user) {
		output := u.follow(t, east, operations, "Upgrading")
		expect.Contains(t, output, "successfully rolled out", "\nContext west: mcs-apiserver v", "\neast     Connected ", "clusterrolebinding.rbac.authorization.k8s.io/mcs-apiserver:relay:west labeled")
		east.MustKubectl(t, "delete", "clusterrolebinding", "mcs-apiserver:relay:west")
	}},
	{"limits for namespaces", func(t *testing.T, u *user) {
		var exports strings.Builder
		for range 22 {
			exports.WriteString("---\napiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {generateName: none-}\n")
		}
		north.MustKubectl(t, "create", "-n", "shop", "-f", expect.Manifest(t, "%s", exports.String()))
		expect.Contains(t, u.follow(t, north, operations, "When a namespace has exported too much already"), "23 shop\n")
		var left struct {
			Items []struct{ Metadata struct{ Name string } }
		}
		expect.NoError(t, json.Unmarshal([]byte(north.MustKubectl(t, "get", "serviceexports", "-n", "shop", "-o", "json", "--sort-by=.metadata.creationTimestamp")), &left))
		if len(left.Items) != 20 || left.Items[0].Metadata.Name != "db" {
			t.Errorf("left are %v", left.Items)
		}
		for _, item := range left.Items[1:] {
			north.MustKubectl(t, "delete", "serviceexport", "-n", "shop", item.Metadata.Name)
		}
		north.MustKubectl(t, "delete", "quota", "-n", "shop", "exports")
	}},
}

// written returns what a command wrote to a file.
func (u *user) written(t *testing.T, name string) string {
	t.Helper()
	return string(expect.Must(os.ReadFile(filepath.Join(u.dir, name)))(t))
}
