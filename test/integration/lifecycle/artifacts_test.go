// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"path/filepath"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// The kube-apiserver accepts all variants of the installation, without warnings such as
// those about Pods that violate the Pod Security Standard of their namespace.
func TestArtifactsAreAccepted(t *testing.T) {
	installed := running(t)
	variants := expect.Must(filepath.Glob(filepath.Join(root, "artifacts", "*", "kustomization.yaml")))(t)
	if len(variants) < 3 {
		t.Fatalf("found only %v", variants)
	}
	for _, variant := range variants {
		output := kubectl(t, installed, "apply", "--dry-run=server", "-k", filepath.Dir(variant))
		expect.Contains(t, output, "deployment.apps/mcs-apiserver")
		expect.Lacks(t, output, "Warning")
	}
}
