// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

const (
	system  = "fleet"
	storage = "fleet-state"
)

// stored returns the UIDs of the objects that mcs-apiserver stores, as soon as its API is available.
func stored(t *testing.T) string {
	t.Helper()
	var uids string
	expect.Eventually(t, "stored objects", func(ctx context.Context) error {
		output, err := cluster.Kubectl(ctx, "get", "serviceexports.multicluster.x-k8s.io,clusterclaims", "-A", "-o", `jsonpath={range .items[*]}{.metadata.name}={.metadata.uid} {end}`)
		if err != nil || !strings.Contains(output, "id.k8s.io=") {
			return fmt.Errorf("%w: %s", err, output)
		}
		uids = output
		return nil
	})
	return uids
}

// installed returns the objects of the installation outside of its namespace.
func installed(ctx context.Context) (string, error) {
	output, err := cluster.Kubectl(ctx, "get", "-o", "name",
		"apiservices,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,flowschemas,prioritylevelconfigurations")
	var found []string
	for _, name := range strings.Fields(output) {
		if strings.Contains(name, "mcs-") || strings.Contains(name, "multicluster") || strings.Contains(name, "about.k8s.io") {
			found = append(found, name)
		}
	}
	return strings.Join(found, " "), err
}

// R352, R354, R356: a namespace that enforces the Pod security standard restricted is enough, and
// what is stored outlives the installation.
func TestHelmInstallsUpgradesAndUninstalls(t *testing.T) {
	cluster.MustKubectl(t, "create", "namespace", system)
	cluster.MustKubectl(t, "label", "namespace", system, "pod-security.kubernetes.io/enforce=restricted")
	notes := helm(t, "install", chart(t), "--set", "storage.namespace="+storage, "--set", "controller.extraArgs={--cluster-id=alone}")
	expect.Contains(t, notes, "kubectl rollout status -n fleet deployment/mcs-apiserver")
	cluster.MustKubectl(t, "wait", "--for=condition=Available", "apiservices", "-l", "app.kubernetes.io/managed-by=mcs-controller", "--timeout=60s")
	stored(t)
	cluster.MustKubectl(t, "create", "-n", "default", "-f", expect.Manifest(t, "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {name: web}\n"))
	before := stored(t)
	expect.Contains(t, before, "web=")
	expect.Contains(t, cluster.MustKubectl(t, "get", "configmaps", "-n", storage, "-o", "name"), "serviceexports")
	if output, err := cluster.Kubectl(t.Context(), "delete", "namespace", storage); err == nil || !strings.Contains(output, "namespace "+storage+" is the state of mcs-apiserver") {
		t.Errorf("deleting the storage namespace: %v, %s", err, output)
	}

	helm(t, "upgrade", chart(t), "--reset-then-reuse-values", "--set", "replicas=1,ports.https=7443,networkPolicy.enabled=false")
	if after := stored(t); after != before {
		t.Errorf("stored after the upgrade are %s, want %s", after, before)
	}
	deployment := cluster.MustKubectl(t, "get", "deployment", "mcs-apiserver", "-n", system, "-o", "jsonpath={.status.readyReplicas} {.spec.template.spec.containers[*].args}")
	expect.Contains(t, deployment, "1 ", "--secure-port=7443", "--apiserver=https://127.0.0.1:7443", "--storage-namespace="+storage, "--cluster-id=alone")
	if policies := cluster.MustKubectl(t, "get", "networkpolicies", "-n", system, "-o", "name"); policies != "" {
		t.Errorf("NetworkPolicy was not deleted: %s", policies)
	}

	helm(t, "uninstall")
	expect.Eventually(t, "deletion of everything that was installed", func(ctx context.Context) error {
		left, err := installed(ctx)
		if err != nil || left != "" {
			return fmt.Errorf("%w: %s", err, left)
		}
		return nil
	})

	helm(t, "install", chart(t), "--set", "storage.namespace="+storage)
	if after := stored(t); after != before {
		t.Errorf("stored after another installation are %s, want %s", after, before)
	}
}
