// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package olderkubernetes tests the server in a cluster of an older Kubernetes
// release, which does not serve all APIs that the library's admission plugins watch.
package olderkubernetes

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/controlplane"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/netns"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/repository"
)

func TestMain(m *testing.M) {
	if err := netns.Enter(); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// Kubernetes 1.35 does not serve MutatingAdmissionPolicy in v1. A plugin that waits
// for it would refuse all writes.
func TestAdmissionPluginsWithoutTheirAPIAreDisabled(t *testing.T) {
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	plane, err := controlplane.Start(t.Context(), controlplane.Config{
		Bin: filepath.Join(root, "bin", "kubernetes"), Dir: filepath.Join(dir, "kubernetes"),
		APIServerFlags: []string{"--emulated-version=1.35"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	installed, err := installation.Install(t.Context(), installation.Config{Plane: plane, Root: root, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := installed.Stop(); err != nil {
			t.Error(err)
		}
	})
	served, err := installed.Kubectl(t.Context(), "api-resources", "--api-group=admissionregistration.k8s.io", "-o", "name")
	if err != nil || strings.Contains(served, "mutatingadmissionpolicies") || !strings.Contains(served, "validatingadmissionpolicies") {
		t.Fatalf("unexpected admission APIs in the emulated version: %v\n%s", err, served)
	}
	output, err := installed.Kubectl(context.WithoutCancel(t.Context()), "apply", "-f", expect.Manifest(t,
		"apiVersion: multicluster.k8s.io/v1\nkind: ClusterClaim\nmetadata: {name: some.example.com}\nspec: {value: x}\n"))
	if err != nil {
		t.Fatalf("write was refused: %v\n%s", err, output)
	}
	log, err := os.ReadFile(filepath.Join(dir, "mcs-apiserver.log"))
	if err != nil {
		t.Fatal(err)
	}
	expect.Contains(t, string(log), `"Disabled admission plugin because the host cluster does not serve its API" plugin="MutatingAdmissionPolicy"`,
		"following order: NamespaceLifecycle,MutatingAdmissionWebhook,Migration.", "following order: ValidatingAdmissionPolicy,ValidatingAdmissionWebhook,Migration,ClusterClaim,ResourceQuota.")
}
