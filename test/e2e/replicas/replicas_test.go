// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

const (
	system = "mcs-system"
	// cuttable is the node that does not run the control plane.
	cuttable = "node-2"

	restartCounts = "jsonpath={.status.containerStatuses[*].restartCount}"
)

// leader returns the Pod of the replica that materializes imports, and its node.
func leader(t *testing.T) (pod, node string) {
	t.Helper()
	expect.Eventually(t, "leader", func(ctx context.Context) error {
		holder, err := west.Kubectl(ctx, "get", "lease", "mcs-controller", "-n", system, "-o", "jsonpath={.spec.holderIdentity}")
		if err != nil {
			return err
		}
		if pod, _, _ = strings.Cut(holder, "_"); pod == "" {
			return errors.New("nobody leads")
		}
		node, err = west.Kubectl(ctx, "get", "pod", pod, "-n", system, "-o", "jsonpath={.spec.nodeName}")
		return err
	})
	return pod, node
}

// moveLeaderTo ends the controllers of the leader until the replica of a node leads.
func moveLeaderTo(t *testing.T, node string) {
	t.Helper()
	expect.Eventually(t, "leader on "+node, func(ctx context.Context) error {
		pod, current := leader(t)
		if current == node {
			return nil
		}
		if err := west.SignalProgram(ctx, system, pod, "mcs-controller", syscall.SIGTERM); err != nil {
			return err
		}
		return fmt.Errorf("leader is on %s", current)
	})
	awaitReplicas(t)
}

// awaitReplicas waits until all replicas are of the current revision and ready.
func awaitReplicas(t *testing.T) {
	t.Helper()
	west.MustKubectl(t, "rollout", "status", "deployment/mcs-apiserver", "-n", system, "--timeout=120s")
}
