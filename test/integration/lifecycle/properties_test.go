// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

const (
	propertiesCRD = "crd/clusterproperties.about.k8s.io"
	propertiesAPI = "v1beta1.about.k8s.io"
)

// createPropertiesCRD creates a CRD of ClusterProperties like upstream's, until the test ends.
func createPropertiesCRD(t *testing.T, installed *installation.Installation) {
	t.Helper()
	t.Cleanup(func() {
		if output, err := installed.Kubectl(context.Background(), "delete", propertiesCRD, "--ignore-not-found", "--timeout=60s"); err != nil {
			t.Errorf("delete the CRD: %v\n%s", err, output)
		}
	})
	kubectl(t, installed, "apply", "-f", expect.Manifest(t, `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusterproperties.about.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/enhancements/pull/2149"}
spec:
  group: about.k8s.io
  scope: Cluster
  names: {plural: clusterproperties, singular: clusterproperty, kind: ClusterProperty}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`))
	kubectl(t, installed, "wait", propertiesCRD, "--for=condition=Established", "--timeout=60s")
}

// expectProperties waits until all ClusterProperties are those of the CRD, which has one of
// another manager, or until they are those of mcs-apiserver.
func expectProperties(t *testing.T, installed *installation.Installation, ofCRD bool) {
	t.Helper()
	expect.Eventually(t, "ClusterProperties", func(ctx context.Context) error {
		service, err := installed.Kubectl(ctx, "get", "apiservice", propertiesAPI, "-o", "jsonpath={.spec.service.name}")
		if err != nil || (service == "") != ofCRD {
			return fmt.Errorf("served by %q: %w", service, err)
		}
		output, err := installed.Kubectl(ctx, "get", "clusterproperties.v1beta1.about.k8s.io", "-o", "name")
		if foreign := strings.Contains(output, "/example.com"); err != nil || foreign != ofCRD || strings.Contains(output, "/id.k8s.io") == ofCRD {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
}

// foreignProperty creates a ClusterProperty of another manager, which mcs-apiserver would not
// allow.
func foreignProperty(t *testing.T, installed *installation.Installation) {
	t.Helper()
	manifest := expect.Manifest(t, "apiVersion: about.k8s.io/v1beta1\nkind: ClusterProperty\nmetadata: {name: example.com}\nspec: {value: theirs}\n")
	expect.Eventually(t, "ClusterProperty of another manager", func(ctx context.Context) error {
		output, err := installed.Kubectl(ctx, "apply", "-f", manifest)
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
}

// R467: ClusterProperties are left to the CRD of another manager, whether it was there before
// mcs-apiserver or comes later, and the rest of the API is served. R468: unless they are to be
// taken over.
func TestClusterPropertiesAreLeftToTheirManager(t *testing.T) {
	installed := applied(t)
	createPropertiesCRD(t, installed)
	foreignProperty(t, installed)
	expect.NoError(t, installed.StartController(t.Context()))
	expect.NoError(t, installed.StartAPIServers())
	expect.Eventually(t, "the rest of the API", func(ctx context.Context) error {
		for _, name := range installation.GroupVersions {
			if name == propertiesAPI {
				continue
			}
			if output, err := installed.Kubectl(ctx, "get", "apiservice", name); err != nil || !strings.Contains(output, "mcs-system/mcs-apiserver") || !strings.Contains(output, "True") {
				return fmt.Errorf("%w: %s", err, output)
			}
		}
		return nil
	})
	expectProperties(t, installed, true)
	if code, body, err := readiness(t.Context(), installed); err != nil || code != http.StatusOK {
		t.Errorf("controller is not ready: %d %s %v", code, body, err)
	}
	expect.Eventually(t, "Event", func(ctx context.Context) error {
		output, err := installed.Kubectl(ctx, "describe", "deployment", "-n", installation.Namespace, "mcs-apiserver")
		if err != nil || !strings.Contains(output, "LeftToOthers") || !strings.Contains(output, "--take-over-cluster-properties") {
			return fmt.Errorf("%w\n%s", err, output)
		}
		return nil
	})

	kubectl(t, installed, "delete", propertiesCRD, "--timeout=60s")
	expectProperties(t, installed, false)
	createPropertiesCRD(t, installed)
	foreignProperty(t, installed)
	expectProperties(t, installed, true)

	expect.NoError(t, installed.StopController())
	installed.ControllerFlags = append(installed.ControllerFlags, "--take-over-cluster-properties")
	expect.NoError(t, installed.StartController(t.Context()))
	expectProperties(t, installed, false)
}
