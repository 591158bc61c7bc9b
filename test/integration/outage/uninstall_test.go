// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// R187: the documented commands leave nothing but what is stored, and after installing
// again all exports are served as before.
func TestUninstallingLeavesNothingButWhatIsStored(t *testing.T) {
	ns := clusters.CreateNamespace(t, "uninstall")
	for _, cluster := range clusters.Clusters {
		cluster.ExportService(t, ns, "web", []string{"10.9.0.1"})
	}
	for _, cluster := range clusters.Clusters {
		cluster.AwaitImport(t, ns, "web", "east", "west")
	}
	expect.Eventually(t, "derived objects", func(ctx context.Context) error {
		_, err := derivedObjects(ctx, ns)
		return err
	})
	stored := func() string {
		export := expect.Must(west().Clientset.MulticlusterXV1beta1().ServiceExports(ns).Get(t.Context(), "web", metav1.GetOptions{}))(t)
		id := expect.Must(west().Clientset.MulticlusterV1().ClusterClaims().Get(t.Context(), "id.k8s.io", metav1.GetOptions{}))(t)
		return fmt.Sprint(export.UID, export.CreationTimestamp, id.UID, id.Spec.Value)
	}
	before := stored()
	// What is documented for a cluster that did not leave selects derived Services.
	list, _, _ := strings.Cut(strings.ReplaceAll(documented(t, "delete services -A"), " delete ", " get "), "\n")
	shell(t, west().Root, list+" -o name | grep derived-")
	shell(t, west().Root, documented(t, "kubectl mcs leave west --from east"))
	expect.NoError(t, west().Stop())

	awaitNone(t, west(), "mcs-|multicluster|clusterset", storageNamespace)
	awaitNone(t, east(), "west", "")
	east().AwaitImport(t, ns, "web", "east")

	west().Installation = expect.Must(installation.Install(t.Context(), west().Config))(t)
	if after := stored(); after != before {
		t.Errorf("stored objects are %s, were %s", after, before)
	}
	expect.NoError(t, clusters.JoinAll(t.Context(), clusterSet))
	for _, cluster := range clusters.Clusters {
		cluster.AwaitImport(t, ns, "web", "east", "west")
	}
}

// awaitNone waits until no object of a cluster has a name, label, annotation or owner that
// matches, except for the content of a namespace and the namespace itself.
func awaitNone(t *testing.T, cluster *fleet.Cluster, pattern, except string) {
	t.Helper()
	matching := regexp.MustCompile(pattern)
	expect.Eventually(t, "removal of all objects from "+cluster.ID, func(ctx context.Context) error {
		all, err := objects(ctx, cluster)
		if err != nil {
			return err
		}
		var found []string
		for _, object := range all {
			described := fmt.Sprint(object.Kind, " ", object.Namespace, "/", object.Name)
			excepted := except != "" && object.Namespace == except || object.Kind == "namespaces" && object.Name == except
			if !excepted && matching.MatchString(fmt.Sprint(described, object.Labels, object.Annotations, object.OwnerReferences)) {
				found = append(found, described)
			}
		}
		if len(found) > 0 {
			return fmt.Errorf("found %s", strings.Join(found, ", "))
		}
		return nil
	})
}

// objects returns all objects of a cluster, with their resource as the kind, except for
// Events, which expire.
func objects(ctx context.Context, cluster *fleet.Cluster) ([]metav1.PartialObjectMetadata, error) {
	admin, err := cluster.Plane.AdminConfig()
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(admin)
	if err != nil {
		return nil, err
	}
	lists, err := cluster.Kubernetes.Discovery().ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	resources, err := discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, lists))
	if err != nil {
		return nil, err
	}
	var all []metav1.PartialObjectMetadata
	for resource := range resources {
		if resource.Resource == "events" {
			continue
		}
		list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource, err)
		}
		for _, item := range list.Items {
			item.Kind = resource.Resource
			all = append(all, item)
		}
	}
	return all, nil
}
