// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"os/exec"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a kubeconfig of the administrator with a context per
// cluster, named after its ID.
func (f *Fleet) WriteKubeconfig(file string) error {
	all := clientcmdapi.NewConfig()
	for _, c := range f.Clusters {
		one, err := clientcmd.LoadFromFile(c.Plane.AdminKubeconfig())
		if err != nil {
			return err
		}
		context := one.Contexts[one.CurrentContext]
		all.Clusters[c.ID], all.AuthInfos[c.ID] = one.Clusters[context.Cluster], one.AuthInfos[context.AuthInfo]
		all.Contexts[c.ID] = &clientcmdapi.Context{Cluster: c.ID, AuthInfo: c.ID}
	}
	all.CurrentContext = f.Clusters[0].ID
	return clientcmd.WriteToFile(*all, file)
}

// KubectlCommand returns a kubectl command with the given kubeconfig and the mcs
// plugin, which has not been started yet.
func (f *Fleet) KubectlCommand(ctx context.Context, kubeconfig string, args ...string) *exec.Cmd {
	bin := filepath.Join(f.Clusters[0].Root, "bin")
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "kubernetes", "kubectl"), args...)
	cmd.Env = []string{
		"HOME=" + filepath.Dir(kubeconfig), "KUBECONFIG=" + kubeconfig,
		"PATH=" + bin + ":" + filepath.Join(bin, "kubernetes") + ":/usr/bin:/bin",
	}
	return cmd
}
