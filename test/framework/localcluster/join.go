// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Join makes every cluster of the set a member of every other with kubectl mcs.
// The cluster IDs are the names of the clusters.
func (s *Set) Join(ctx context.Context, clusterSet string) error {
	clusters, err := s.Clusters()
	if err != nil {
		return err
	}
	args := []string{"mcs", "join", "--clusterset", clusterSet}
	for _, cluster := range clusters {
		args = append(args, cluster.Name, "--id", cluster.Name+"="+cluster.Name)
	}
	if output, err := s.Kubectl(ctx, args...); err != nil {
		return fmt.Errorf("join the clusters: %w\n%s", err, output)
	}
	return nil
}

// Kubectl runs kubectl with a context for every cluster and with the mcs
// plugin, and returns its combined output.
func (s *Set) Kubectl(ctx context.Context, args ...string) (string, error) {
	bin := filepath.Join(s.Root, "bin")
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "kubernetes", "kubectl"), args...)
	cmd.Env = []string{"HOME=" + s.Dir, "PATH=" + bin + ":" + filepath.Join(bin, "kubernetes") + ":/usr/bin:/bin", "KUBECONFIG=" + s.Kubeconfig()}
	output, err := cmd.CombinedOutput()
	return string(output), err
}
