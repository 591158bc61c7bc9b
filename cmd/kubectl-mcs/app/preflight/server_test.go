// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/plan"
)

// R432: the clock of a server is known as precisely as a request allows.
func TestClock(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	end := start.Add(300 * time.Millisecond)
	for _, test := range []struct {
		name string
		date string
		want *plan.Clock
	}{
		{"same", start.Format(http.TimeFormat), &plan.Clock{Least: -300 * time.Millisecond, Most: time.Second}},
		{"ahead", start.Add(time.Minute).Format(http.TimeFormat), &plan.Clock{Least: time.Minute - 300*time.Millisecond, Most: time.Minute + time.Second}},
		{"behind", start.Add(-time.Hour).Format(http.TimeFormat), &plan.Clock{Least: -time.Hour - 300*time.Millisecond, Most: -time.Hour + time.Second}},
		{"none", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, newClock(test.date, start, end)); diff != "" {
				t.Errorf("unexpected result (-want +got):\n%s", diff)
			}
		})
	}
}

// R435: a certificate that is not valid for the address, or not signed by the certificate
// authority of the kubeconfig, is told from a server that does not answer.
func TestConnect(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	server.Config.ErrorLog = nil
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	closed := httptest.NewTLSServer(http.NotFoundHandler())
	closed.Close()
	local := []string{"127.0.0.1"}
	for _, test := range []struct {
		name   string
		access plan.Access
		want   plan.Server
	}{
		{"valid", plan.Access{Server: server.URL, CA: authority}, plan.Server{Addresses: local}},
		{"valid for the server name", plan.Access{Server: server.URL, CA: authority, ServerName: "example.com"}, plan.Server{Addresses: local}},
		{"another name", plan.Access{Server: server.URL, CA: authority, ServerName: "west.example.org"}, plan.Server{Addresses: local, Invalid: "not west.example.org"}},
		{"another authority", plan.Access{Server: server.URL}, plan.Server{Addresses: local, Invalid: "unknown authority"}},
		{"no authority", plan.Access{Server: server.URL, CA: "ca"}, plan.Server{Addresses: local, Invalid: "has no certificate"}},
		{"closed", plan.Access{Server: closed.URL, CA: authority}, plan.Server{Addresses: local, Unreachable: "connection refused"}},
		{"no host", plan.Access{Server: "east"}, plan.Server{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := connect(t.Context(), test.access)
			for _, pair := range [][2]*string{{&got.Invalid, &test.want.Invalid}, {&got.Unreachable, &test.want.Unreachable}} {
				if *pair[1] != "" && strings.Contains(*pair[0], *pair[1]) {
					*pair[0] = *pair[1]
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("unexpected result (-want +got):\n%s", diff)
			}
		})
	}
}

// R436: the mode of kube-proxy is that of its configuration.
func TestProxyMode(t *testing.T) {
	for _, test := range []struct {
		configuration, want string
		found, fails        bool
	}{
		{"", "", false, false},
		{"apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\nipvs: {scheduler: rr}\n", "ipvs", true, false},
		{"kind: KubeProxyConfiguration\n", "", true, false},
		{"mode: [", "", false, true},
	} {
		mode, found, err := proxyMode(test.configuration)
		if mode != test.want || found != test.found || (err != nil) != test.fails {
			t.Errorf("%q: got mode %q, found %t, error %v", test.configuration, mode, found, err)
		}
	}
}
