// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/mcs-api/config/crd"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

const exportsCRD, importsCRD = "crd/serviceexports.multicluster.x-k8s.io", "crd/serviceimports.multicluster.x-k8s.io"

// createUpstreamCRDs creates upstream's CRDs and an object of one of them, until
// the test ends.
func createUpstreamCRDs(t *testing.T, installed *installation.Installation) {
	t.Helper()
	t.Cleanup(func() {
		if output, err := installed.Kubectl(context.Background(), "delete", exportsCRD, importsCRD, "--ignore-not-found", "--timeout=60s"); err != nil {
			t.Errorf("delete the CRDs: %v\n%s", err, output)
		}
	})
	for _, definition := range [][]byte{crd.ServiceExportCRD, crd.ServiceImportCRD} {
		kubectl(t, installed, "apply", "-f", expect.Manifest(t, "%s", definition))
	}
	kubectl(t, installed, "wait", exportsCRD, importsCRD, "--for=condition=Established", "--timeout=60s")
	kubectl(t, installed, "create", "-f", expect.Manifest(t, "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\n"+
		"metadata: {name: migrated, namespace: default}\nspec: {exportedLabels: {from: crd}}\n"))
	kubectl(t, installed, "get", "serviceexports,serviceimports", "-A")
	expect.Eventually(t, "APIServices of the CRDs", func(ctx context.Context) error {
		_, err := installed.Aggregator.ApiregistrationV1().APIServices().Get(ctx, "v1alpha1.multicluster.x-k8s.io", metav1.GetOptions{})
		return err
	})
}

// createInventoryCRDs creates CRDs of the Cluster Inventory API and an object of each, until
// the test ends.
func createInventoryCRDs(t *testing.T, installed *installation.Installation) {
	t.Helper()
	for plural, kind := range map[string]string{"clusterprofiles": "ClusterProfile", "placementdecisions": "PlacementDecision"} {
		name := plural + ".multicluster.x-k8s.io"
		t.Cleanup(func() {
			if output, err := installed.Kubectl(context.Background(), "delete", "crd", name, "--ignore-not-found", "--timeout=60s"); err != nil {
				t.Errorf("delete the CRD: %v\n%s", err, output)
			}
		})
		kubectl(t, installed, "apply", "-f", expect.Manifest(t, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s}\n"+
			"spec: {group: multicluster.x-k8s.io, scope: Namespaced, names: {plural: %s, kind: %s}, versions: [{name: v1alpha1, served: true, storage: true, "+
			"schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}\n", name, plural, kind))
		kubectl(t, installed, "wait", "crd/"+name, "--for=condition=Established", "--timeout=60s")
	}
	kubectl(t, installed, "create", "-f", expect.Manifest(t, "apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ClusterProfile\n"+
		"metadata: {name: east, namespace: default}\nspec: {clusterManager: {name: example}}\nstatus: {version: {kubernetes: v1.36.3}}\n---\n"+
		"apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: PlacementDecision\nmetadata: {name: web, namespace: default}\ndecisions: [{clusterProfileRef: {name: east}}]\n"))
}

// readiness returns what the controller reports at /readyz.
func readiness(ctx context.Context, installed *installation.Installation) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, installed.HealthURL()+"/readyz", nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

func TestArtifactsMeetThePodSecurityOfTheirNamespace(t *testing.T) {
	installed := applied(t)
	expect.Contains(t, kubectl(t, installed, "get", "namespace", installation.Namespace, "-o", "yaml"), "pod-security.kubernetes.io/enforce: restricted")
	spec := kubectl(t, installed, "get", "deployment", "mcs-apiserver", "-n", installation.Namespace, "-o", "jsonpath={.spec.template.spec}")
	kubectl(t, installed, "create", "--dry-run=server", "-f", expect.Manifest(t,
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"trial","namespace":%q},"spec":%s}`, installation.Namespace, spec))
}

func TestRegistrationOverACRDIsRefused(t *testing.T) {
	installed := applied(t)
	createUpstreamCRDs(t, installed)
	expect.NoError(t, installed.StartController(t.Context()))
	reason := "CustomResourceDefinition serviceexports.multicluster.x-k8s.io, serviceimports.multicluster.x-k8s.io serves multicluster.x-k8s.io/v1alpha1"
	expect.Eventually(t, "readiness", func(ctx context.Context) error {
		if code, body, err := readiness(ctx, installed); err != nil || code != http.StatusServiceUnavailable || !strings.Contains(body, reason) {
			return fmt.Errorf("%d %s %w", code, body, err)
		}
		return nil
	})
	expect.Eventually(t, "Event", func(ctx context.Context) error {
		output, err := installed.Kubectl(ctx, "describe", "deployment", "-n", installation.Namespace, "mcs-apiserver")
		if err != nil || !strings.Contains(output, "RegistrationRefused") || !strings.Contains(output, reason) {
			return fmt.Errorf("%w\n%s", err, output)
		}
		return nil
	})
	log := expect.Must(os.ReadFile(filepath.Join(installed.Dir, "mcs-controller.log")))(t)
	expect.Contains(t, string(log), reason, "kubectl mcs migrate")
	expect.Lacks(t, kubectl(t, installed, "get", "apiservices"), "mcs-system/mcs-apiserver")
}

// Group-versions can be taken over without their objects, as docs/operations.md says.
func TestGroupVersionsAreTakenOverFromCRDs(t *testing.T) {
	installed := applied(t)
	createUpstreamCRDs(t, installed)
	createInventoryCRDs(t, installed)
	expect.NoError(t, installed.StartController(t.Context()))
	saved := expect.Manifest(t, "%s", kubectl(t, installed, "get", "serviceexports", "-A", "-o", "yaml"))
	inventory := expect.Manifest(t, "%s", kubectl(t, installed, "get", "clusterprofiles,placementdecisions", "-A", "-o", "yaml"))
	kubectl(t, installed, "label", "apiservice", "v1alpha1.multicluster.x-k8s.io", "v1beta1.multicluster.x-k8s.io", "kube-aggregator.kubernetes.io/automanaged-")
	expect.NoError(t, installed.StartAPIServers())
	expect.NoError(t, installed.AwaitAvailable(t.Context()))
	if code, body, err := readiness(t.Context(), installed); err != nil || code != http.StatusOK {
		t.Errorf("controller is not ready: %d %s %v", code, body, err)
	}
	if list := kubectl(t, installed, "get", "serviceexports", "-A"); !strings.Contains(list, "No resources found") {
		t.Errorf("ServiceExports exist before any was applied:\n%s", list)
	}
	kubectl(t, installed, "apply", "-f", saved, "-f", inventory)
	if manager := kubectl(t, installed, "get", "clusterprofile", "east", "-n", "default", "-o", "jsonpath={.spec.clusterManager.name} {.status.version.kubernetes}"); manager != "example " {
		t.Errorf("migrated ClusterProfile has cluster manager and version %q, want example and none", manager)
	}
	if cluster := kubectl(t, installed, "get", "placementdecision", "web", "-n", "default", "-o", "jsonpath={.decisions[*].clusterProfileRef.name}"); cluster != "east" {
		t.Errorf("migrated PlacementDecision has clusters %q, want east", cluster)
	}
	if label := kubectl(t, installed, "get", "serviceexport", "migrated", "-n", "default", "-o", "jsonpath={.spec.exportedLabels.from}"); label != "crd" {
		t.Errorf("migrated ServiceExport has the label %q, want crd", label)
	}
	// Deleting the CRDs does not delete what replaced them.
	kubectl(t, installed, "delete", exportsCRD, importsCRD, "--timeout=60s")
	for _, name := range installation.GroupVersions {
		expect.Contains(t, kubectl(t, installed, "get", "apiservice", name), "mcs-system/mcs-apiserver", "True")
	}
}

func TestChangedAPIServiceIsRestored(t *testing.T) {
	installed := running(t)
	client := installed.Aggregator.ApiregistrationV1().APIServices()
	for name, change := range map[string]func(context.Context) error{
		"deleted": func(ctx context.Context) error {
			return client.Delete(ctx, installation.GroupVersions[0], metav1.DeleteOptions{})
		},
		"changed": func(ctx context.Context) error {
			_, err := installed.Kubectl(ctx, "patch", "apiservice", installation.GroupVersions[0], "--type=merge", "-p", `{"spec":{"caBundle":null,"insecureSkipTLSVerify":true}}`)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			expect.NoError(t, change(t.Context()))
			expect.Eventually(t, "APIService", func(ctx context.Context) error {
				apiService, err := client.Get(ctx, installation.GroupVersions[0], metav1.GetOptions{})
				if err == nil && (len(apiService.Spec.CABundle) == 0 || apiService.Spec.InsecureSkipTLSVerify || apiService.Spec.Service == nil) {
					err = fmt.Errorf("not restored: %+v", apiService.Spec)
				}
				return err
			})
		})
	}
}

func TestUninstallingRemovesTheAPI(t *testing.T) {
	installed := running(t)
	uninstall(t)
	expect.Eventually(t, "discovery without the API", func(ctx context.Context) error { // the kube-apiserver observes it later
		output, err := installed.Kubectl(ctx, "api-resources")
		if err == nil && strings.Contains(output, "multicluster") {
			err = errors.New(output)
		}
		return err
	})
}
