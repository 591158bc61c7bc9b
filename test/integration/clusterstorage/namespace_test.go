// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterstorage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	multiclusterv1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster/v1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	multiclusterxlisters "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/listers/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/configmap"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

const services = 5

// exportServices makes the cluster a ClusterSet of its own and exports a few Services.
func exportServices(t *testing.T, client versioned.Interface) {
	t.Helper()
	expect.Eventually(t, "claim of the cluster ID", func(ctx context.Context) error { // by mcs-controller
		_, err := client.MulticlusterV1().ClusterClaims().Get(ctx, "id.k8s.io", metav1.GetOptions{})
		return err
	})
	claim := &multiclusterv1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: "clusterset.k8s.io"}, Spec: multiclusterv1.ClusterClaimSpec{Value: "alone"}}
	expect.Must(client.MulticlusterV1().ClusterClaims().Create(t.Context(), claim, metav1.CreateOptions{}))(t)
	for i := range services {
		name := fmt.Sprintf("web-%d", i)
		expect.Must(installed.Kubernetes.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{}))(t)
		expect.Must(client.MulticlusterXV1beta1().ServiceExports("default").Create(t.Context(), newExport(name), metav1.CreateOptions{}))(t)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		for i := range services {
			name := fmt.Sprintf("web-%d", i)
			if err := client.MulticlusterXV1beta1().ServiceExports("default").Delete(ctx, name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
				expect.NoError(t, err)
			}
			expect.NoError(t, installed.Kubernetes.CoreV1().Services("default").Delete(ctx, name, metav1.DeleteOptions{}))
		}
		expect.NoError(t, client.MulticlusterV1().ClusterClaims().Delete(ctx, claim.Name, metav1.DeleteOptions{}))
	})
}

func uids[T interface {
	GetUID() types.UID
	GetName() string
}](items []T) map[string]types.UID {
	found := map[string]types.UID{}
	for _, item := range items {
		found[item.GetName()] = item.GetUID()
	}
	return found
}

func pointers[T any](items []T) []*T {
	var all []*T
	for i := range items {
		all = append(all, &items[i])
	}
	return all
}

func exportUIDs(ctx context.Context, client versioned.Interface) (map[string]types.UID, error) {
	list, err := client.MulticlusterXV1beta1().ServiceExports("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return uids(pointers(list.Items)), nil
}

func importUIDs(ctx context.Context, client versioned.Interface) (map[string]types.UID, error) {
	list, err := client.MulticlusterXV1beta1().ServiceImports("default").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return uids(pointers(list.Items)), nil
}

// follower follows exports and imports of a replica as a controller would.
type follower struct {
	exports   multiclusterxlisters.ServiceExportLister
	deletions atomic.Int32
}

func follow(t *testing.T, client versioned.Interface) *follower {
	t.Helper()
	factory := externalversions.NewSharedInformerFactory(client, 0)
	types := factory.MulticlusterX().V1beta1()
	f := &follower{exports: types.ServiceExports().Lister()}
	for _, informer := range []cache.SharedIndexInformer{types.ServiceExports().Informer(), types.ServiceImports().Informer()} {
		expect.Must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { f.deletions.Add(1) }}))(t)
	}
	factory.StartWithContext(t.Context())
	t.Cleanup(factory.Shutdown)
	factory.WaitForCacheSync(t.Context().Done())
	return f
}

// storedResources returns the resources of the stored objects.
func storedResources(t *testing.T) []string {
	t.Helper()
	resources := sets.New[string]()
	for _, item := range expect.Must(installed.Kubernetes.CoreV1().ConfigMaps(storageNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: configmap.ResourceLabel}))(t).Items {
		resources.Insert(item.Labels[configmap.ResourceLabel])
	}
	return sets.List(resources)
}

// backUp returns the ConfigMaps of the storage namespace as a backup would hold
// them.
func backUp(t *testing.T) []corev1.ConfigMap {
	t.Helper()
	list := expect.Must(installed.Kubernetes.CoreV1().ConfigMaps(storageNamespace).List(t.Context(), metav1.ListOptions{}))(t)
	for i := range list.Items {
		item := &list.Items[i]
		item.ObjectMeta = metav1.ObjectMeta{Name: item.Name, Labels: item.Labels, Annotations: item.Annotations}
	}
	return list.Items
}

func restore(t *testing.T, backup []corev1.ConfigMap) {
	t.Helper()
	for _, item := range backup {
		if item.Name == "kube-root-ca.crt" { // every namespace has its own
			continue
		}
		expect.Must(installed.Kubernetes.CoreV1().ConfigMaps(storageNamespace).Create(t.Context(), &item, metav1.CreateOptions{}))(t)
	}
}

// R143: deleting the storage namespace deletes no export and no import from the API.
// When its ConfigMaps are restored, everything is as before.
func TestDeletedStorageNamespaceLosesNothing(t *testing.T) {
	reset(t)
	running(t)
	first, second := client(t, installed.APIServers[0]), client(t, installed.APIServers[1])
	exportServices(t, first)
	var imports map[string]types.UID
	expect.Eventually(t, "imports", func(ctx context.Context) (err error) {
		if imports, err = importUIDs(ctx, second); err == nil && len(imports) != services {
			err = fmt.Errorf("got %d imports", len(imports))
		}
		return err
	})
	// R162: nothing is written before an import is shown. The ClusterProfile of the cluster has
	// nothing to do with it.
	got := slices.DeleteFunc(storedResources(t), func(resource string) bool { return resource == "clusterprofiles.multicluster.x-k8s.io" })
	if !slices.Equal(got, []string{"clusterclaims.multicluster.k8s.io", "serviceexports.multicluster.x-k8s.io"}) {
		t.Errorf("the storage holds %v", got)
	}
	exports := expect.Must(exportUIDs(t.Context(), first))(t)
	followers := []*follower{follow(t, first), follow(t, second)}
	backup := backUp(t)

	deleteNamespace(t) // mcs-controller creates it again
	for _, replica := range installed.APIServers {
		expectUnavailable(t, replica, "was lost")
		// Imports are computed, and must not be withdrawn.
		if status, _, err := replica.Health(t.Context(), "/readyz"); err != nil || status != http.StatusOK {
			t.Errorf("/readyz: %d, %v", status, err)
		}
		if got, err := importUIDs(t.Context(), client(t, replica)); err != nil || !maps.Equal(got, imports) {
			t.Errorf("imports are %v, %v, want %v", got, err, imports)
		}
	}
	expect.Eventually(t, "Event", func(ctx context.Context) error {
		events, err := installed.Kubernetes.EventsV1().Events(installation.Namespace).List(ctx, metav1.ListOptions{})
		if err == nil && !slices.ContainsFunc(events.Items, func(event eventsv1.Event) bool {
			return event.Reason == "StorageUnavailable" && event.Regarding.Kind == "Deployment" && strings.Contains(event.Note, "was lost")
		}) {
			err = errors.New("no Event says that storage was lost")
		}
		return err
	})
	allowWrites(t)
	restore(t, backup)
	for _, replica := range installed.APIServers {
		if got, err := exportUIDs(t.Context(), client(t, replica)); err != nil || !maps.Equal(got, exports) { // retries
			t.Errorf("exports are %v, %v, want %v", got, err, exports)
		}
	}
	// Informers resume, of clients and of the replicas themselves.
	expect.Must(first.MulticlusterXV1beta1().ServiceExports("default").Create(t.Context(), newExport("after"), metav1.CreateOptions{}))(t)
	for _, follower := range followers {
		expect.Eventually(t, "an export after the restoration", func(context.Context) error {
			_, err := follower.exports.ServiceExports("default").Get("after")
			return err
		})
	}
	expect.NoError(t, first.MulticlusterXV1beta1().ServiceExports("default").Delete(t.Context(), "after", metav1.DeleteOptions{}))
	for i, client := range []versioned.Interface{first, second} {
		expect.Eventually(t, "a deletion after the restoration", func(context.Context) error {
			if got := followers[i].deletions.Load(); got != 1 {
				return fmt.Errorf("replica %d reported %d deletions, want 1", i, got)
			}
			return nil
		})
		if got, err := importUIDs(t.Context(), client); err != nil || !maps.Equal(got, imports) {
			t.Errorf("imports are %v, %v, want %v", got, err, imports)
		}
	}

	// The end of an import is recorded.
	expect.NoError(t, first.MulticlusterXV1beta1().ServiceExports("default").Delete(t.Context(), "web-0", metav1.DeleteOptions{}))
	expect.Eventually(t, "record of the end of an import", func(context.Context) error {
		if got := storedResources(t); !slices.Contains(got, "lives.storage.mcs-apiserver.io") {
			return fmt.Errorf("the storage holds %v", got)
		}
		return nil
	})
}
