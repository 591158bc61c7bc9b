// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/localcluster"
)

// defaultDoesNotReplaceEmbedded applies artifacts/default to a cluster whose objects are in
// an embedded etcd, and undoes it. R196: the new replicas are not ready and say why, and
// the former one serves as before.
func defaultDoesNotReplaceEmbedded(t *testing.T, cluster *localcluster.Cluster) {
	t.Helper()
	mcs := func(args ...string) string {
		t.Helper()
		return kubectl(t, cluster, append([]string{"-n", "mcs-system"}, args...)...)
	}
	stored := func(ctx context.Context) (string, error) {
		return cluster.Kubectl(ctx, "get", "serviceexports,clusterclaims", "-A", "-o", "jsonpath={.items[*].metadata.uid}")
	}
	before := expect.Must(stored(t.Context()))(t)
	kubectl(t, cluster, "apply", "-k", filepath.Join(set.Root, "artifacts", "default"))
	expect.Eventually(t, "reason in the logs", func(ctx context.Context) error {
		logs, err := cluster.Kubectl(ctx, "logs", "-n", "mcs-system", "-l", "app.kubernetes.io/name=mcs-apiserver", "-c", "mcs-apiserver", "--tail=-1")
		if err == nil && !strings.Contains(logs, "has stored its objects with --storage=embedded until now") {
			err = fmt.Errorf("logs are %s", logs)
		}
		return err
	})
	if ready := mcs("get", "deployment", "mcs-apiserver", "-o", "jsonpath={.status.readyReplicas}"); ready != "1" {
		t.Errorf("%s replicas are ready, want the former one", ready)
	}
	if after := expect.Must(stored(t.Context()))(t); after != before {
		t.Errorf("objects were %s, are %s", before, after)
	}
	mcs("scale", "deployment/mcs-apiserver", "--replicas=0")
	mcs("wait", "--for=delete", "pods", "-l", "app.kubernetes.io/name=mcs-apiserver", "--timeout=100s")
	kubectl(t, cluster, "apply", "-k", filepath.Join(set.Root, "artifacts", "embedded"))
	mcs("rollout", "status", "deployment/mcs-apiserver", "--timeout=100s")
	if minimum := mcs("get", "poddisruptionbudget", "mcs-apiserver", "-o", "jsonpath={.spec.minAvailable}"); minimum != "0" {
		t.Errorf("%s replicas must be available, so that the node of the only one cannot be drained", minimum)
	}
	expect.Eventually(t, "objects of the embedded etcd", func(ctx context.Context) error {
		after, err := stored(ctx)
		if err == nil && after != before {
			err = fmt.Errorf("objects were %s, are %s", before, after)
		}
		return err
	})
}
