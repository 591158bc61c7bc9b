// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/documents"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R590, R592: all commands of docs/developers.md succeed, in their order and as one script, for a user
// who has the role edit in one namespace of each cluster, and no other permission.
func TestCommandsForDevelopers(t *testing.T) {
	ns := namespace(t, "shop")
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	config := expect.Must(clientcmd.LoadFromFile(set.Kubeconfig()))(t)
	for _, user := range config.AuthInfos {
		user.Impersonate = "developer"
	}
	expect.NoError(t, clientcmd.WriteToFile(*config, kubeconfig))
	kubectl(t, east, "create", "rolebinding", "developer", "-n", ns, "--clusterrole=edit", "--user=developer")
	kubectl(t, west, "create", "rolebinding", "developer", "-n", ns, "--clusterrole=edit", "--user=developer")

	commands := documents.Assigned(t, set.Root)
	shell := documents.Shell{Env: append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+set.Root+"/bin:"+set.Root+"/bin/kubernetes:"+os.Getenv("PATH"))}
	t.Log(commands.Run(t, shell, commands.Of(t, "docs/developers.md")...))
}
