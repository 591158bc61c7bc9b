// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs runs the commands of the documentation as they stand there.
package docs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/documents"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

var (
	set               *localcluster.Set
	east, west, north *localcluster.Cluster
)

func TestMain(m *testing.M) { os.Exit(localcluster.RunTests(m, start)) }

// start starts the clusters of the documentation. They are not joined.
func start(ctx context.Context, clusters *localcluster.Set) (err error) {
	set = clusters
	if err := set.Up(ctx, "east", "west", "north"); err != nil {
		return err
	}
	for name, cluster := range map[string]**localcluster.Cluster{"east": &east, "west": &west, "north": &north} {
		if *cluster, err = set.Cluster(name); err != nil {
			return err
		}
	}
	return nil
}

// R592: all commands of the documentation succeed, and print what the pages say. Each group of
// steps finds the clusters as the one before has left them.
func TestCommandsOfTheDocumentation(t *testing.T) {
	u := &user{commands: documents.Assigned(t, set.Root), dir: t.TempDir(), cache: t.TempDir()}
	for _, name := range []string{"artifacts", "bin"} {
		expect.NoError(t, os.Symlink(filepath.Join(set.Root, name), filepath.Join(u.dir, name)))
	}
	for _, steps := range [][]step{starting, joining, exporting, observing, operating, losing, leaving, installing} {
		for _, step := range steps {
			if !t.Run(step.name, func(t *testing.T) { step.run(t, u) }) {
				t.FailNow() // what follows depends on it
			}
		}
	}
}

// step is something that a user does with the clusters.
type step struct {
	name string
	run  func(t *testing.T, u *user)
}

// user enters commands.
type user struct {
	commands *documents.Commands
	// dir is a directory with what commands refer to, and what they write.
	dir string
	// cache is for kubectl.
	cache string
}

// shell returns a shell in which a cluster is the current context.
func (u *user) shell(t *testing.T, current *localcluster.Cluster) documents.Shell {
	t.Helper()
	config := expect.Must(clientcmd.LoadFromFile(set.Kubeconfig()))(t)
	config.CurrentContext = current.Name
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	expect.NoError(t, clientcmd.WriteToFile(*config, kubeconfig))
	bin := filepath.Join(set.Root, "bin")
	return documents.Shell{Dir: u.dir, Answer: "y", Env: append(os.Environ(),
		"MAKEFLAGS=", "CLUSTERSET_DIR="+set.Dir, "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+u.cache,
		"PATH="+bin+":"+filepath.Join(bin, "kubernetes")+":"+filepath.Join(bin, "test")+":"+os.Getenv("PATH"))}
}

// follow runs all commands under a heading as one script, with a cluster as the current context.
func (u *user) follow(t *testing.T, current *localcluster.Cluster, page, heading string) string {
	t.Helper()
	return u.enter(t, current, u.commands.Under(t, page, heading)...)
}

// enter runs some of the commands under a heading.
func (u *user) enter(t *testing.T, current *localcluster.Cluster, blocks ...*documents.Block) string {
	t.Helper()
	output := u.commands.Run(t, u.shell(t, current), blocks...)
	t.Log(output)
	return output
}

// kubectl runs a command that is not in the documentation, with a context for every cluster. It
// must succeed.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	output, err := set.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// join joins clusters, with the CIDRs of their Pods.
func join(t *testing.T, clusters ...*localcluster.Cluster) {
	t.Helper()
	args := []string{"mcs", "join", "--clusterset", "production"}
	for _, cluster := range clusters {
		args = append(args, cluster.Name, "--id", cluster.Name+"="+cluster.Name, "--allowed-cidrs", cluster.Name+"="+strings.Join(cluster.PodCIDRs(), ","))
	}
	kubectl(t, args...)
}
