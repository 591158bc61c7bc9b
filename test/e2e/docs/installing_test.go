// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

const install = "docs/install.md"

// installing are the ways to install mcs-apiserver in the west, where it was uninstalled, and to
// change the storage in the north.
var installing = []step{
	{"release", func(t *testing.T, u *user) {
		shell := u.shell(t, west)
		shell.Dir = set.Root
		shell.Env = append(shell.Env, "DIST="+filepath.Join(u.dir, "dist"), "PLATFORMS=linux/"+runtime.GOARCH)
		shell.Run(t, `make release PARTS="manifests chart" VERSION=v0.1.0`) // what a release with images has, too
	}},
	{"manifests", func(t *testing.T, u *user) {
		blocks := u.commands.Under(t, install, "Manifests")
		for _, name := range []string{"ca.crt", "tls.crt", "tls.key"} {
			expect.NoError(t, os.WriteFile(filepath.Join(u.dir, name), []byte(name), 0o600))
		}
		u.enter(t, west, blocks[1:]...)
		expect.Contains(t, west.MustKubectl(t, "get", "secrets", "-n", "mcs-system"), "kubernetes.io/dockerconfigjson", "mcs-apiserver-etcd")
		u.enter(t, west, blocks[0])
		expect.Contains(t, u.follow(t, west, install, "Checking the installation"), "successfully rolled out", "v1beta1.multicluster.x-k8s.io condition met")
		u.enter(t, west, u.commands.Under(t, "README.md", "Installing mcs-apiserver")[0])
	}},
	{"from manifests to Helm", func(t *testing.T, u *user) {
		before := stored(t, west)
		u.enter(t, west, u.commands.Under(t, install, "Helm")[2])
		expectStored(t, west, before)
	}},
	{"uninstalling without leaving", func(t *testing.T, u *user) {
		u.shell(t, west).Run(t, "helm uninstall mcs-apiserver --kube-context west -n mcs-system")
		u.enter(t, west, u.commands.Under(t, operations, "Uninstalling")[2:]...)
		expect.Lacks(t, west.MustKubectl(t, "get", "namespaces", "-o", "name"), "mcs-")
	}},
	{"Helm", func(t *testing.T, u *user) {
		u.enter(t, west, u.commands.Under(t, install, "Helm")[:2]...)
		awaitInstalled(t, west)
		before := stored(t, west)
		u.enter(t, west, u.commands.Under(t, operations, "Moving to another storage")[0])
		expectStored(t, west, before)
		expect.Contains(t, west.MustKubectl(t, "get", "deployment", "-n", "mcs-system", "mcs-apiserver", "-o", "yaml"), "- --storage=embedded\n")
	}},
	{"moving to another storage", func(t *testing.T, u *user) {
		blocks := u.commands.Under(t, operations, "Moving to another storage")
		before := stored(t, north)
		u.enter(t, north, blocks[3])
		expectStored(t, north, before)
		u.enter(t, north, blocks[2])
		expect.Contains(t, u.enter(t, north, blocks[1]), "Moved all objects; remove --migrate-from")
		expectStored(t, north, before)
	}},
}
