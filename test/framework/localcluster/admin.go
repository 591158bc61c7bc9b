// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"os/exec"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Admin is the access of an administrator to a cluster.
type Admin struct {
	// bin is the directory of kubectl and of the other programs of Kubernetes.
	bin string
	// dir is the directory of the cluster's kubeconfig, logs, certificates and data.
	dir string
}

// Kubeconfig returns the kubeconfig file of the cluster's administrator.
func (a Admin) Kubeconfig() string { return filepath.Join(a.dir, "kubeconfig") }

// Config returns a client configuration of the cluster's administrator without
// client-side rate limits.
func (a Admin) Config() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", a.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

// Kubectl runs kubectl as the cluster's administrator and returns its combined output.
func (a Admin) Kubectl(ctx context.Context, args ...string) (string, error) {
	output, err := a.KubectlCommand(ctx, args...).CombinedOutput()
	return string(output), err
}

// KubectlCommand returns a kubectl command that has not been started yet.
func (a Admin) KubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(a.bin, "kubectl"), args...)
	cmd.Env = []string{"HOME=" + a.dir, "PATH=/usr/bin:/bin", "KUBECONFIG=" + a.Kubeconfig()}
	return cmd
}
