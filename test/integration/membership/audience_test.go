// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// exportTo changes which clusters a ServiceExport is for.
func exportTo(t *testing.T, in *fleet.Cluster, ns, name, clusters string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, multicluster.ExportToAnnotation, clusters)
	expect.Must(in.Clientset.MulticlusterXV1beta1().ServiceExports(ns).Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}))(t)
}

// seen returns everything that a reader of east can read: names, and how much east exports.
func seen(ctx context.Context, api versioned.Interface, ns string) (string, error) {
	services, err := api.ClusterSetV1alpha1().ExportedServices(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	slices, err := api.ClusterSetV1alpha1().ExportedEndpointSlices(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	own, err := api.ClusterSetV1alpha1().Members().Get(ctx, "east", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	var names []string
	for _, service := range services.Items {
		if service.Namespace == ns {
			names = append(names, service.Name)
		}
	}
	for _, slice := range slices.Items {
		names = append(names, slice.Name)
	}
	if int(own.Status.Exports) != len(services.Items) {
		return "", fmt.Errorf("east says that it exports %d Services, and %d can be read", own.Status.Exports, len(services.Items))
	}
	return strings.Join(names, " "), nil
}

// R622, R623, R624: an export to west is read by west alone, whichever way another cluster asks, and
// moves when it is changed.
func TestExportIsForChosenClusters(t *testing.T) {
	join(t, "east", "west", "north")
	ns := clusters.CreateNamespace(t, "chosen")
	expect.Must(east().Service(t.Context(), ns, "web"))(t)
	expect.Must(east().EndpointSlice(t.Context(), ns, "web", []string{"10.9.0.1"}))(t)
	expect.Must(east().Export(t.Context(), ns, "web", func(e *multiclusterxv1beta1.ServiceExport) {
		e.Annotations = map[string]string{multicluster.ExportToAnnotation: "west"}
	}))(t)
	west().AwaitImport(t, ns, "web", "east")
	east().AwaitImport(t, ns, "web", "east") // the own cluster always imports
	readers := map[string]map[string]versioned.Interface{"west": {}, "north": {}}
	watches := map[string]watch.Interface{}
	for _, reader := range []*fleet.Cluster{west(), north()} {
		for way, config := range peerConfigs(t, reader, east()) {
			api := clientset(t, config)
			readers[reader.ID][way] = api
			watcher := expect.Must(api.ClusterSetV1alpha1().ExportedServices(ns).Watch(t.Context(), metav1.ListOptions{}))(t)
			t.Cleanup(watcher.Stop)
			watches[reader.ID+" "+way] = watcher
		}
	}
	check := func(visible map[string]bool) {
		t.Helper()
		for reader, ways := range readers {
			for way, api := range ways {
				expect.Eventually(t, fmt.Sprintf("what %s sees through %s", reader, way), func(ctx context.Context) error {
					found, err := seen(ctx, api, ns)
					if err == nil && (found != "") != visible[reader] {
						err = errors.New(found)
					}
					return err
				})
				object, err := api.ClusterSetV1alpha1().ExportedServices(ns).Get(t.Context(), "web.east", metav1.GetOptions{})
				if apierrors.IsNotFound(err) == visible[reader] || err != nil && !apierrors.IsNotFound(err) {
					t.Errorf("%s through %s: got %v, %v", reader, way, object, err)
				}
				_, err = api.ClusterSetV1alpha1().ExportedEndpointSlices(ns).Get(t.Context(), "web-ipv4.east", metav1.GetOptions{})
				if apierrors.IsNotFound(err) == visible[reader] {
					t.Errorf("%s through %s: got the EndpointSlice: %v", reader, way, err)
				}
			}
		}
	}
	next := func(reader string, want watch.EventType) {
		t.Helper()
		for way := range readers[reader] {
			select {
			case event := <-watches[reader+" "+way].ResultChan():
				if event.Type != want {
					t.Errorf("%s through %s: got %s %v, want %s", reader, way, event.Type, event.Object, want)
				}
			case <-time.After(30 * time.Second):
				t.Errorf("%s through %s: got no event, want %s", reader, way, want)
			}
		}
	}
	check(map[string]bool{"west": true})
	next("west", watch.Added)
	north().AwaitNoImport(t, ns, "web")
	expect.Eventually(t, "condition of the ServiceExport", func(ctx context.Context) error {
		found, err := east().Clientset.MulticlusterXV1beta1().ServiceExports(ns).Get(ctx, "web", metav1.GetOptions{})
		if err == nil && !strings.Contains(text(t, found.Status), "Service is exported to west only") {
			err = errors.New(text(t, found.Status))
		}
		return err
	})

	exportTo(t, east(), ns, "web", "north")
	next("west", watch.Deleted)
	next("north", watch.Added)
	check(map[string]bool{"north": true})
	north().AwaitImport(t, ns, "web", "east")
	west().AwaitNoImport(t, ns, "web")

	exportTo(t, east(), ns, "web", "region.example.com=eu")
	next("north", watch.Deleted)
	check(nil)
	north().AwaitNoImport(t, ns, "web")
	t.Cleanup(func() {
		expect.NoError(t, west().Clientset.MulticlusterV1().ClusterClaims().Delete(context.Background(), "region.example.com", metav1.DeleteOptions{}))
	})
	expect.NoError(t, west().SetClaim(t.Context(), "region.example.com", "eu", nil))
	next("west", watch.Added)
	west().AwaitImport(t, ns, "web", "east")
	check(map[string]bool{"west": true})
}
