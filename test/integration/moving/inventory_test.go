// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package moving

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// inventoryCRD returns a CRD of the Cluster Inventory API.
func inventoryCRD(plural, kind, extra string) string {
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %s.multicluster.x-k8s.io, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: multicluster.x-k8s.io
  scope: Namespaced
  names: {plural: %s, singular: %s, kind: %s, listKind: %sList%s}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, plural, plural, strings.ToLower(kind), kind, kind, extra)
}

// R479: objects of the Cluster Inventory API are taken over from CRDs that were installed
// before, with their status, and stay reachable at every moment, whatever happens to the CRDs
// afterwards.
func TestInventoryIsTakenOver(t *testing.T) {
	t.Parallel()
	north := cluster("north")
	profiles, decisions := v1alpha1.WithResource("clusterprofiles"), v1alpha1.WithResource("placementdecisions")
	startWithCRDs(t, north, []schema.GroupVersion{v1alpha1}, inventoryCRD("clusterprofiles", "ClusterProfile", ""), inventoryCRD("placementdecisions", "PlacementDecision", ""))
	kubectl(t, "--context", "north", "create", "-f", expect.Manifest(t, "%s", `apiVersion: multicluster.x-k8s.io/v1alpha1
kind: ClusterProfile
metadata: {name: edge, namespace: default, finalizers: [example.com/keep]}
spec: {displayName: Edge, clusterManager: {name: example}}
---
apiVersion: multicluster.x-k8s.io/v1alpha1
kind: PlacementDecision
metadata: {name: web, namespace: default}
schedulerName: example
decisions: [{clusterProfileRef: {name: edge}}]
`))
	setVersion := func(version string) {
		t.Helper()
		kubectl(t, "--context", "north", "patch", "clusterprofile", "edge", "-n", "default", "--subresource=status", "--type=merge", "-p", `{"status":{"version":{"kubernetes":"`+version+`"}}}`)
	}
	setVersion("v1.36.0")
	profile, decision := identity(t, north, profiles, "default", "edge"), identity(t, north, decisions, "default", "web")
	watched := observe(t, north, profiles, "default/edge")
	alsoWatched := observe(t, north, decisions, "default/web")
	same := func(t *testing.T, version string) {
		t.Helper()
		if now := identity(t, north, profiles, "default", "edge"); now != profile {
			t.Errorf("the profile was %s and is %s", profile, now)
		}
		if now := identity(t, north, decisions, "default", "web"); now != decision {
			t.Errorf("the decision was %s and is %s", decision, now)
		}
		got := kubectl(t, "--context", "north", "get", "clusterprofile", "edge", "-n", "default", "-o", "jsonpath={.spec.displayName} {.status.version.kubernetes} {.metadata.finalizers[0]}")
		if want := "Edge " + version + " example.com/keep"; got != want {
			t.Errorf("the profile is %q, want %q", got, want)
		}
		if got := kubectl(t, "--context", "north", "get", "placementdecision", "web", "-n", "default", "-o", "jsonpath={.schedulerName} {.decisions[0].clusterProfileRef.name}"); got != "example edge" {
			t.Errorf("the decision is %q", got)
		}
	}

	t.Run("taken over", func(t *testing.T) {
		output := kubectl(t, "mcs", "migrate", "north", "--yes")
		expect.Contains(t, output, "1 clusterprofiles are copied", "1 placementdecisions are copied")
		awaitServedBy(t, north, v1alpha1, true)
		same(t, "v1.36.0")
		setVersion("v1.36.1")
		watched.knows(t, "default/edge", func(object *unstructured.Unstructured) error {
			if version, _, _ := unstructured.NestedString(object.Object, "status", "version", "kubernetes"); version != "v1.36.1" {
				return errors.New(version)
			}
			return nil
		})
	})
	t.Run("CRD upgraded", func(t *testing.T) {
		kubectl(t, "--context", "north", "apply", "--server-side", "--force-conflicts", "-f", expect.Manifest(t, "%s", inventoryCRD("clusterprofiles", "ClusterProfile", ", shortNames: [cp]")))
		same(t, "v1.36.1")
	})
	t.Run("CRD removed", func(t *testing.T) {
		kubectl(t, "--context", "north", "delete", "crd", "placementdecisions.multicluster.x-k8s.io", "--timeout=60s")
		same(t, "v1.36.1")
	})
	t.Run("CRD installed again", func(t *testing.T) {
		kubectl(t, "--context", "north", "apply", "--server-side", "-f", expect.Manifest(t, "%s", inventoryCRD("placementdecisions", "PlacementDecision", "")))
		kubectl(t, "--context", "north", "wait", "crd", "--all", "--for=condition=Established", "--timeout=60s")
		awaitServedBy(t, north, v1alpha1, true)
		same(t, "v1.36.1")
	})
	t.Run("returned", func(t *testing.T) {
		kubectl(t, "mcs", "migrate", "--back", "north", "--yes")
		awaitServedBy(t, north, v1alpha1, false)
		decision = identity(t, north, decisions, "default", "web") // its CRD was deleted in between
		same(t, "v1.36.1")
	})
	t.Run("CRDs removed", func(t *testing.T) {
		// What mcs-apiserver stores is served as soon as no CRD is.
		kubectl(t, "--context", "north", "patch", "clusterprofile", "edge", "-n", "default", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		watched.release()
		alsoWatched.release()
		kubectl(t, "--context", "north", "delete", "crd", "placementdecisions.multicluster.x-k8s.io", "clusterprofiles.multicluster.x-k8s.io", "--timeout=60s")
		awaitServedBy(t, north, v1alpha1, true)
		expect.Eventually(t, "ClusterProfile", func(ctx context.Context) error {
			_, err := objects(t, north).Resource(profiles).Namespace("default").Get(ctx, "edge", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return errors.New("not served")
			}
			return err
		})
		// R478: watches that are opened now go on.
		watching := expect.Must(objects(t, north).Resource(profiles).Watch(t.Context(), metav1.ListOptions{}))(t)
		defer watching.Stop()
		for enough, open := time.After(2*time.Second), true; open; {
			var event watch.Event
			select {
			case event, open = <-watching.ResultChan():
				if !open || event.Type == watch.Error {
					t.Errorf("the watch ended with %v", event.Object)
				}
			case <-enough:
				open = false
			}
		}
		expect.Contains(t, kubectl(t, "mcs", "migrate", "north", "--yes"), "remove the ConfigMap", "there is nothing to migrate")
		expect.Lacks(t, kubectl(t, "--context", "north", "get", "configmaps", "-n", "mcs-system"), "mcs-apiserver-crd-migration")
	})
}
