// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

var clusterProfiles = schema.GroupVersionResource{Group: multicluster.XGroupName, Version: "v1alpha1", Resource: "clusterprofiles"}

// profileLister follows the ClusterProfiles of a cluster, as a tool does that knows nothing
// of mcs-apiserver.
func profileLister(t *testing.T, in *fleet.Cluster) cache.GenericNamespaceLister {
	t.Helper()
	client := expect.Must(dynamic.NewForConfig(expect.Must(in.Plane.AdminConfig())(t)))(t)
	informers := dynamicinformer.NewDynamicSharedInformerFactory(client, 0)
	lister := informers.ForResource(clusterProfiles).Lister()
	informers.Start(t.Context().Done())
	t.Cleanup(informers.Shutdown)
	for resource, synced := range informers.WaitForCacheSync(t.Context().Done()) {
		if !synced {
			t.Fatalf("cache of %s did not sync", resource)
		}
	}
	return lister.ByNamespace(installation.Namespace)
}

// awaitProfiles waits until the profiles are those of exactly these clusters, healthy, and the
// namespace has the label of the ClusterSet.
func awaitProfiles(t *testing.T, in *fleet.Cluster, lister cache.GenericNamespaceLister, clusterSet string, want ...string) {
	t.Helper()
	expect.Eventually(t, "ClusterProfiles of "+in.ID, func(ctx context.Context) error {
		objects, err := lister.List(labels.SelectorFromSet(labels.Set{inventory.ClusterManagerLabel: multicluster.ManagedBy}))
		if err != nil {
			return err
		}
		var found []string
		for _, object := range objects {
			profile := object.(*unstructured.Unstructured)
			if err := checkProfile(profile, clusterSet); err != nil {
				return fmt.Errorf("ClusterProfile %s: %w", profile.GetName(), err)
			}
			found = append(found, profile.GetName())
		}
		slices.Sort(found)
		if !slices.Equal(found, want) {
			return fmt.Errorf("found %v, want %v", found, want)
		}
		namespace, err := in.Kubernetes.CoreV1().Namespaces().Get(ctx, installation.Namespace, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if label := namespace.Labels[inventory.ClusterSetLabel]; label != clusterSet {
			return fmt.Errorf("namespace is labeled with ClusterSet %q, want %q", label, clusterSet)
		}
		return nil
	})
}

func checkProfile(profile *unstructured.Unstructured, clusterSet string) error {
	properties, _, err := unstructured.NestedSlice(profile.Object, "status", "properties")
	if err != nil {
		return err
	}
	found := map[string]any{}
	for _, property := range properties {
		property := property.(map[string]any)
		found[property["name"].(string)] = property["value"]
	}
	if found["cluster.clusterset.k8s.io"] != profile.GetName() || found[multicluster.ClusterSetClaim] != clusterSet {
		return fmt.Errorf("has properties %v", found)
	}
	version, _, err := unstructured.NestedString(profile.Object, "status", "version", "kubernetes")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(version, "v1.") {
		return fmt.Errorf("has version %q of Kubernetes", version)
	}
	conditions, _, err := unstructured.NestedSlice(profile.Object, "status", "conditions")
	if err != nil {
		return err
	}
	for _, condition := range conditions {
		if condition := condition.(map[string]any); condition["type"] == inventory.ControlPlaneHealthy && condition["status"] == "True" {
			return nil
		}
	}
	return fmt.Errorf("has conditions %v", conditions)
}

// R457, R458, R459: a tool that lists ClusterProfiles finds the members, while they are members.
func TestMembersAreFoundByTheClusterInventoryAPI(t *testing.T) {
	lister := profileLister(t, east())
	awaitProfiles(t, east(), lister, "")
	join(t, "east", "west", "north")
	awaitProfiles(t, east(), lister, clusterSet, "east", "north", "west")
	kubectl(t, "--context", "west", "apply", "-f", manifest(t, "region.example.com", "somewhere")) // R461
	t.Cleanup(func() {
		expect.NoError(t, west().Clientset.MulticlusterV1().ClusterClaims().Delete(context.Background(), "region.example.com", metav1.DeleteOptions{}))
	})
	expect.Eventually(t, "property of west in east", func(context.Context) error {
		object, err := lister.Get("west")
		if err != nil {
			return err
		}
		properties, _, err := unstructured.NestedSlice(object.(*unstructured.Unstructured).Object, "status", "properties")
		if err != nil {
			return err
		}
		region := map[string]any{"name": "region.example.com", "value": "somewhere"}
		if !slices.ContainsFunc(properties, func(property any) bool { return reflect.DeepEqual(property, region) }) {
			return fmt.Errorf("got properties %v", properties)
		}
		return nil
	})
	kubectl(t, "mcs", "leave", "north", "--from", "east,west")
	awaitProfiles(t, east(), lister, clusterSet, "east", "west")
	kubectl(t, "mcs", "leave", "east", "--from", "west")
	awaitProfiles(t, east(), lister, "")
}
