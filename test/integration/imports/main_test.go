// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package imports tests how exports of one cluster become ServiceImports in the
// others, on real control planes.
package imports

import (
	"encoding/json"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// clusters are joined by TestMain; a test that changes membership restores it.
var clusters *fleet.Fleet

func TestMain(m *testing.M) {
	fleet.Main(m, &clusters, fleet.Config{
		Names: []string{"east", "west", "north"}, ClusterSet: "everywhere",
		Configure: func(_ string, _ *controlplane.Config, installed *installation.Config) {
			installed.APIServerFlags = []string{
				"--member-ttl=30s", // the minimum, to keep the tests short
				"--audit-policy-file=testdata/audit.yaml", "--audit-log-path=" + auditLog(installed),
			}
		},
	})
}

func auditLog(installed *installation.Config) string {
	return filepath.Join(installed.Dir, "audit.log")
}

func east() *fleet.Cluster  { return clusters.Cluster("east") }
func west() *fleet.Cluster  { return clusters.Cluster("west") }
func north() *fleet.Cluster { return clusters.Cluster("north") }

// equalJSON reports whether two values are equal in JSON.
func equalJSON(a, b any) bool {
	one, _ := json.Marshal(a)
	other, _ := json.Marshal(b)
	return string(one) == string(other)
}

// export creates a Service with two endpoints and exports it.
func export(t *testing.T, in *fleet.Cluster, ns, name string, change ...func(*corev1.Service)) {
	t.Helper()
	in.ExportService(t, ns, name, []string{"10.9.0.1", "10.9.0.2"}, change...)
}

func unexport(t *testing.T, in *fleet.Cluster, ns, name string) {
	t.Helper()
	expect.NoError(t, in.Unexport(t.Context(), ns, name))
}
