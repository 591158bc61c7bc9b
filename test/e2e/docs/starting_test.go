// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/simulate"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/documents"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// starting is what newcomers and contributors do. It leaves the clusters in no ClusterSet.
var starting = []step{
	{"quick start", func(t *testing.T, u *user) {
		blocks := u.commands.Under(t, "README.md", "Quick start")
		demo := u.inRepository(t, blocks[0])
		expect.Contains(t, demo, "\nHello from web-", "Both clusters keep running")
		shown := u.enter(t, west, blocks[1])
		expect.Contains(t, shown, "\nweb    ClusterSetIP ", "Context west: cluster west in ClusterSet demo\n", "\neast     Connected   ", "\nHello from web-")
		part(t)
		for _, cluster := range []*localcluster.Cluster{east, west} {
			cluster.MustKubectl(t, "delete", "namespace", "demo", "--wait=false")
		}
	}},
	{"contributing", func(t *testing.T, u *user) {
		output := u.inRepository(t, u.commands.Under(t, "CONTRIBUTING.md", "Prerequisites")...)
		expect.Contains(t, output, "pkg/merge")
	}},
	{"local clusters", func(t *testing.T, u *user) {
		output := u.inRepository(t, u.commands.Under(t, "docs/clusters.md", "Local clusters")...)
		expect.Contains(t, output, "coredns-", "mcs-apiserver-")
	}},
	{"replaying a run of the chaos tests", func(t *testing.T, u *user) {
		block := u.commands.Under(t, "docs/chaos.md", "Replaying a run")[0]
		fields := strings.Fields(block.Commands())
		recorded := fields[len(fields)-1]
		file := expect.Must(os.Create(recorded))(t)
		t.Cleanup(func() { expect.NoError(t, os.Remove(recorded)) })
		encoder := json.NewEncoder(file)
		for _, entry := range simulate.History(simulate.Options{Seed: 17, Duration: time.Minute, Faults: true}) {
			expect.NoError(t, encoder.Encode(entry))
		}
		expect.NoError(t, file.Close())
		expect.Contains(t, u.inRepository(t, block), " changes (")
	}},
}

// inRepository runs commands in the root of the repository.
func (u *user) inRepository(t *testing.T, blocks ...*documents.Block) string {
	t.Helper()
	shell := u.shell(t, east)
	shell.Dir = set.Root
	output := u.commands.Run(t, shell, blocks...)
	t.Log(output)
	return output
}
