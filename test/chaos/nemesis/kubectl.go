// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package nemesis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

func kubectl(ctx context.Context, cluster *localcluster.Cluster, args ...string) error {
	if output, err := cluster.Kubectl(ctx, args...); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return nil
}

// retry repeats what fails while a cluster recovers. A kube-apiserver may take more than a minute to end.
func retry(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := do(ctx)
		if err == nil || !wait(ctx, time.Second) {
			return err
		}
	}
}

// awaitReplicas waits until all replicas of mcs-apiserver are available.
func awaitReplicas(ctx context.Context, cluster *localcluster.Cluster) error {
	for {
		err := kubectl(ctx, cluster, "rollout", "status", "deployment/mcs-apiserver", "-n", system, "--timeout=30s")
		if err == nil || !wait(ctx, time.Second) {
			return err
		}
	}
}

// scale sets the number of replicas of mcs-apiserver.
func scale(ctx context.Context, cluster *localcluster.Cluster, replicas int) error {
	return retry(ctx, func(ctx context.Context) error {
		return kubectl(ctx, cluster, "scale", "deployment/mcs-apiserver", "-n", system, fmt.Sprintf("--replicas=%d", replicas))
	})
}

// changeLeader restarts the mcs-controller that holds the Lease.
func changeLeader(ctx context.Context, cluster *localcluster.Cluster) error {
	return retry(ctx, func(ctx context.Context) error {
		holder, err := cluster.Kubectl(ctx, "get", "lease", "mcs-controller", "-n", system, "-o", "jsonpath={.spec.holderIdentity}")
		if err != nil {
			return fmt.Errorf("%w: %s", err, holder)
		}
		pod, _, _ := strings.Cut(holder, "_")
		if pod == "" {
			return errors.New("nobody leads")
		}
		return cluster.SignalProgram(ctx, system, pod, "mcs-controller", syscall.SIGTERM)
	})
}
