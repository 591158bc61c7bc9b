// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package stateful

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/documents"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R592: all commands of docs/stateful.md succeed, in their order. R483: a member that lost its volume is
// replaced by some of them. The last ones remove the north, so that this test is the last one.
func TestCommandsForStatefulApplications(t *testing.T) {
	commands, page := documents.Assigned(t, set.Root), "docs/stateful.md"
	bin := filepath.Join(set.Root, "bin")
	shell := documents.Shell{Dir: set.Root, Env: append(os.Environ(), "MAKEFLAGS=", "CLUSTERSET_DIR="+set.Dir, "KUBECONFIG="+set.Kubeconfig(),
		"PATH="+bin+":"+filepath.Join(bin, "kubernetes")+":"+os.Getenv("PATH"))}

	output := commands.Run(t, shell, commands.Under(t, page, "Running the example")...)
	expect.Contains(t, output, "| started | north |", "\ngreeting\nhello\n")

	lead(t, east) // an election may take longer than etcdctl waits
	output = commands.Run(t, shell, commands.Under(t, page, "When a cluster is lost")...)
	expect.Contains(t, output, "\ngreeting\nhello without north\n")

	loseVolume(t)
	replace := commands.Under(t, page, "Replacing a member that lost its volume")
	commands.Run(t, shell, replace[:len(replace)-1]...)
	edited := shell
	edited.Dir = t.TempDir()
	examples := filepath.Join(edited.Dir, "artifacts", "examples")
	expect.NoError(t, os.MkdirAll(examples, 0o755))
	expect.NoError(t, os.Symlink(filepath.Dir(existing(t)), filepath.Join(examples, "etcd")))
	commands.Run(t, edited, replace[len(replace)-1])
	expect.Eventually(t, "new member", func(ctx context.Context) error { return reads(ctx, north, "greeting", "hello without north", itself) })
	north.MustKubectl(t, "apply", "-k", example("north"))
	lead(t, north)
	must(t, west, "put", "greeting", "again")
	lead(t, east)

	commands.Run(t, shell, commands.Under(t, page, "Removing a member")...)
	expect.Lacks(t, must(t, east, "member", "list"), "north")
	expect.Lacks(t, east.MustKubectl(t, "get", "members"), "north")
}
