// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	_ "embed" // the manifest and the Corefiles of CoreDNS
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

//go:embed manifests/coredns.yaml
var dnsManifest string

// corefile is that of a cluster without mcs-apiserver. In corefileClusterSet, clusterset.local has
// a server block of its own, so that cluster.local does not depend on the multi-cluster API.
var (
	//go:embed manifests/Corefile
	corefile string
	//go:embed manifests/Corefile.clusterset
	corefileClusterSet string
)

// installDNS runs CoreDNS behind the Service kube-dns and waits until it answers.
func installDNS(ctx context.Context, admin Admin, ips []string, corefile string) error {
	manifest := strings.NewReplacer("${IPV4}", ips[0], "${IPV6}", ips[1], "${COREFILE}", strconv.Quote(corefile)).Replace(dnsManifest)
	cmd := admin.KubectlCommand(ctx, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apply CoreDNS: %w\n%s", err, output)
	}
	return awaitRollout(ctx, admin, "kube-system", "coredns")
}

// installMCS installs mcs-apiserver as a user would, and waits until its API is available.
func installMCS(ctx context.Context, admin Admin, artifacts string) error {
	if output, err := admin.Kubectl(ctx, "apply", "-k", artifacts); err != nil {
		return fmt.Errorf("apply %s: %w\n%s", artifacts, err, output)
	}
	if err := awaitRollout(ctx, admin, "mcs-system", "mcs-apiserver"); err != nil {
		return err
	}
	var output string
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var err error
		output, err = admin.Kubectl(ctx, "get", "serviceexports,serviceimports,clusterclaims", "-A")
		return err == nil, nil
	}); err != nil {
		return fmt.Errorf("API is not available: %w\n%s", err, output)
	}
	return nil
}

// awaitRollout waits until a Deployment is available. On a timeout, the error
// describes its Pods.
func awaitRollout(ctx context.Context, admin Admin, namespace, deployment string) error {
	output, err := admin.Kubectl(ctx, "rollout", "status", "deployment/"+deployment, "-n", namespace, "--timeout="+patience.String())
	if err == nil {
		return nil
	}
	pods, _ := admin.Kubectl(ctx, "describe", "pods", "-n", namespace)
	agent := process.LogTail(filepath.Join(admin.dir, "node-agent.log"), 20)
	return fmt.Errorf("wait for Deployment %s/%s: %w\n%s\n%s\n%s", namespace, deployment, err, output, pods, agent)
}
