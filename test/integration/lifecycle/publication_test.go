// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// R465: with --publish-crds, programs that wait for the CRDs of ServiceExports and
// ServiceImports find them, while all requests are served by mcs-apiserver.
func TestPublishedCRDs(t *testing.T) {
	with := config(t)
	with.ControllerFlags = append(with.ControllerFlags, "--publish-crds")
	installed := appliedWith(t, with)
	crds := expect.Must(dynamic.NewForConfig(expect.Must(plane.AdminConfig())(t)))(t).Resource(apiconflict.CRDResource)
	watcher := expect.Must(crds.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=serviceimports.multicluster.x-k8s.io"}))(t)
	defer watcher.Stop()
	expect.NoError(t, installed.StartController(t.Context()))
	expect.NoError(t, installed.StartAPIServers())
	expect.NoError(t, installed.AwaitAvailable(t.Context()))
	if event, ok := <-watcher.ResultChan(); !ok || event.Type != watch.Added {
		t.Fatalf("a program that watches CRDs got %v", event)
	}
	kubectl(t, installed, "wait", exportsCRD, importsCRD, "--for=condition=Established", "--timeout=60s")
	for _, name := range apiconflict.PublishedCRDs {
		definition := expect.Must(crds.Get(t.Context(), name, metav1.GetOptions{}))(t)
		conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
		if text := fmt.Sprint(conditions); strings.Contains(text, "NonStructuralSchema") {
			t.Errorf("%s: %s", name, text)
		}
	}

	t.Run("requests", func(t *testing.T) { expectServedByUs(t, installed) })
	t.Run("deleted CRD", func(t *testing.T) {
		kubectl(t, installed, "delete", exportsCRD, importsCRD, "--timeout=60s")
		expectCRDs(t, crds, true)
		expectServedByUs(t, installed)
	})
	t.Run("edited CRD", func(t *testing.T) {
		kubectl(t, installed, "patch", importsCRD, "--type=merge", "-p", `{"spec":{"names":{"categories":["all"]}}}`)
		expect.Eventually(t, "CRD", func(ctx context.Context) error {
			definition, err := crds.Get(ctx, apiconflict.PublishedCRDs[1], metav1.GetOptions{})
			if err != nil {
				return err
			}
			if categories, _, _ := unstructured.NestedStringSlice(definition.Object, "spec", "names", "categories"); len(categories) != 1 || categories[0] != "multicluster" {
				return fmt.Errorf("not restored: %v", categories)
			}
			return nil
		})
	})
	t.Run("nothing changes", func(t *testing.T) {
		before := expect.Must(crds.Get(t.Context(), apiconflict.PublishedCRDs[1], metav1.GetOptions{}))(t)
		kubectl(t, installed, "annotate", "apiservice", installation.GroupVersions[0], "touched=yes", "--overwrite") // an event
		expect.NoError(t, installed.AwaitAvailable(t.Context()))
		after := expect.Must(crds.Get(t.Context(), apiconflict.PublishedCRDs[1], metav1.GetOptions{}))(t)
		if before.GetGeneration() != after.GetGeneration() {
			t.Errorf("the CRD was updated from generation %d to %d", before.GetGeneration(), after.GetGeneration())
		}
	})
	t.Run("deleted APIService", func(t *testing.T) { // the kube-apiserver creates one for the CRD
		kubectl(t, installed, "delete", "apiservice", "v1beta1.multicluster.x-k8s.io", "v1alpha1.multicluster.x-k8s.io")
		expect.NoError(t, installed.AwaitAvailable(t.Context()))
		expectServedByUs(t, installed)
	})
	t.Run("deleted namespace", func(t *testing.T) {
		kubectl(t, installed, "create", "namespace", "published")
		kubectl(t, installed, "create", "-f", expect.Manifest(t, "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceExport\nmetadata: {name: web, namespace: published}\n"))
		kubectl(t, installed, "delete", "namespace", "published", "--timeout=60s")
	})
	t.Run("withdrawn", func(t *testing.T) {
		expect.NoError(t, installed.StopController())
		installed.ControllerFlags = nil
		expect.NoError(t, installed.StartController(t.Context()))
		expectCRDs(t, crds, false)
		expectServedByUs(t, installed)
	})
	t.Run("uninstalled", func(t *testing.T) {
		expect.NoError(t, installed.StopController())
		installed.ControllerFlags = with.ControllerFlags
		expect.NoError(t, installed.StartController(t.Context()))
		expectCRDs(t, crds, true)
		uninstall(t)
		expectCRDs(t, crds, false)
	})
}

// expectServedByUs checks that mcs-apiserver serves ServiceExports and ServiceImports, rather
// than CRDs: it refuses to create ServiceImports, and documents its own types. Discovery and
// OpenAPI follow changes of CRDs with a delay.
func expectServedByUs(t *testing.T, installed *installation.Installation) {
	t.Helper()
	forged := expect.Manifest(t, "apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceImport\nmetadata: {name: forged, namespace: default}\nspec: {type: Headless, ports: []}\n")
	expect.Eventually(t, "the API is served by mcs-apiserver", func(ctx context.Context) error {
		for _, check := range []struct {
			command string
			refused bool
			want    string
		}{
			{"get serviceexports,serviceimports -A", false, ""},
			{"get multicluster -A", false, "clusterclaim.multicluster.k8s.io"},
			{"create --validate=false -f " + forged, true, "ServiceImports are computed"},
			{"explain serviceimports.spec --api-version=multicluster.x-k8s.io/v1beta1", false, "sessionAffinity"},
			{"get apiservice v1beta1.multicluster.x-k8s.io", false, "mcs-system/mcs-apiserver"},
			{"get apiservice v1alpha1.multicluster.x-k8s.io", false, "mcs-system/mcs-apiserver"},
		} {
			output, err := installed.Kubectl(ctx, strings.Fields(check.command)...)
			if (err != nil) != check.refused || !strings.Contains(output, check.want) {
				return fmt.Errorf("kubectl %s: %w\n%s", check.command, err, output)
			}
		}
		return nil
	})
}

// expectCRDs checks whether the CRDs are published.
func expectCRDs(t *testing.T, crds dynamic.ResourceInterface, published bool) {
	t.Helper()
	expect.Eventually(t, "CRDs", func(ctx context.Context) error {
		for _, name := range apiconflict.PublishedCRDs {
			definition, err := crds.Get(ctx, name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err) && !published:
			case err != nil:
				return err
			case !published:
				return errors.New(name + " exists")
			case definition.GetDeletionTimestamp() != nil:
				return errors.New(name + " is being deleted")
			}
		}
		return nil
	})
}
