// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	_ "embed" // the manifest of CoreDNS
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/process"
)

//go:embed manifests/coredns.yaml
var dnsManifest string

// nodeReady returns an error unless the cluster's node is ready.
func (c *Cluster) nodeReady(ctx context.Context) error {
	config, err := c.Config()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Get(ctx, c.nodeName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return errors.New("node is not ready")
}

// installDNS runs CoreDNS behind the Service kube-dns and waits until it answers.
func (c *Cluster) installDNS(ctx context.Context) error {
	manifest := strings.NewReplacer("${IPV4}", c.dnsIPs()[0], "${IPV6}", c.dnsIPs()[1]).Replace(dnsManifest)
	cmd := c.KubectlCommand(ctx, "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apply CoreDNS: %w\n%s", err, output)
	}
	return c.awaitRollout(ctx, "kube-system", "coredns")
}

// install installs mcs-apiserver as a user would, and waits until its API is available.
func (c *Cluster) install(ctx context.Context) error {
	if output, err := c.Kubectl(ctx, "apply", "-k", filepath.Join(c.set.Root, "artifacts", "default")); err != nil {
		return fmt.Errorf("apply artifacts/default: %w\n%s", err, output)
	}
	if err := c.awaitRollout(ctx, "mcs-system", "mcs-apiserver"); err != nil {
		return err
	}
	var output string
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var err error
		output, err = c.Kubectl(ctx, "get", "serviceexports,serviceimports,clusterclaims", "-A")
		return err == nil, nil
	}); err != nil {
		return fmt.Errorf("API is not available: %w\n%s", err, output)
	}
	return nil
}

// awaitRollout waits until a Deployment is available. On a timeout, the error
// describes its Pods.
func (c *Cluster) awaitRollout(ctx context.Context, namespace, deployment string) error {
	output, err := c.Kubectl(ctx, "rollout", "status", "deployment/"+deployment, "-n", namespace, "--timeout="+patience.String())
	if err == nil {
		return nil
	}
	pods, _ := c.Kubectl(ctx, "describe", "pods", "-n", namespace)
	agent := process.LogTail(filepath.Join(c.Dir(), "node-agent.log"), 20)
	return fmt.Errorf("wait for Deployment %s/%s: %w\n%s\n%s\n%s", namespace, deployment, err, output, pods, agent)
}
