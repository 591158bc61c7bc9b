// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/installation"
)

// service is the Service of an exchange.
const service = "web"

// exchange is a Service that all clusters export and import.
type exchange struct {
	namespace string
	// before are the UIDs of all objects that depend on storage, by cluster.
	before map[string]map[string]string
	// barriers counts the exports that were created in order to see them imported.
	barriers int

	mu        sync.Mutex
	withdrawn []string
}

// newExchange exports a Service from all clusters, and follows in all clusters what
// they import. Members are not lost for being unavailable.
func newExchange(t *testing.T, namespace string) *exchange {
	t.Helper()
	clusters.CreateNamespace(t, namespace)
	x := &exchange{namespace: namespace, before: map[string]map[string]string{}}
	for number, cluster := range clusters.Clusters {
		cluster.ExportService(t, namespace, service, []string{fmt.Sprintf("10.9.0.%d", number+1)})
		for _, peer := range clusters.Clusters {
			if peer == cluster {
				continue
			}
			secret := "secret/" + clusterset.MemberSecretName(peer.ID)
			kubectl(t, "--context", cluster.ID, "annotate", "-n", installation.Namespace, secret, clusterset.TTLAnnotation+"=1h")
			t.Cleanup(func() {
				if output, err := run(context.Background(), t, "--context", cluster.ID, "annotate", "-n", installation.Namespace, secret, clusterset.TTLAnnotation+"-"); err != nil {
					t.Error(output)
				}
			})
		}
	}
	for _, cluster := range clusters.Clusters {
		expect.Eventually(t, "imports of "+cluster.ID, func(ctx context.Context) (err error) {
			x.before[cluster.ID], err = x.state(ctx, cluster)
			return err
		})
		x.follow(t, cluster)
	}
	return x
}

// follow records what a cluster withdraws, until the test ends.
func (x *exchange) follow(t *testing.T, cluster *fleet.Cluster) {
	t.Helper()
	hosted := informers.NewSharedInformerFactoryWithOptions(cluster.Kubernetes, 0, informers.WithNamespace(x.namespace), informers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.LabelSelector = multicluster.ServiceNameLabel + "=" + service
	}))
	served := externalversions.NewSharedInformerFactoryWithOptions(cluster.Clientset, 0, externalversions.WithNamespace(x.namespace), externalversions.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.FieldSelector = "metadata.name=" + service
	}))
	for kind, informer := range map[string]cache.SharedIndexInformer{
		"Service": hosted.Core().V1().Services().Informer(), "EndpointSlice": hosted.Discovery().V1().EndpointSlices().Informer(),
		"ServiceImport": served.MulticlusterX().V1beta1().ServiceImports().Informer(),
	} {
		subject := cluster.ID + ": " + kind
		expect.Must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			DeleteFunc: func(object any) { x.record("%s was deleted: %v", subject, object) },
			UpdateFunc: func(old, object any) {
				if size(object) < size(old) {
					x.record("%s was changed from %v to %v", subject, old, object)
				}
			},
		}))(t)
	}
	hosted.StartWithContext(t.Context())
	served.StartWithContext(t.Context())
	t.Cleanup(hosted.Shutdown)
	t.Cleanup(served.Shutdown)
	hosted.WaitForCacheSync(t.Context().Done())
	served.WaitForCacheSync(t.Context().Done())
}

// size returns how many endpoints or clusters an object has.
func size(object any) int {
	switch object := object.(type) {
	case *discoveryv1.EndpointSlice:
		return len(object.Endpoints)
	case *multiclusterxv1beta1.ServiceImport:
		return len(object.Status.Clusters)
	}
	return 0
}

func (x *exchange) record(format string, args ...any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.withdrawn = append(x.withdrawn, fmt.Sprintf(format, args...))
}

// expectNothingWithdrawn checks that no cluster has withdrawn anything.
func (x *exchange) expectNothingWithdrawn(t *testing.T) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, what := range x.withdrawn {
		t.Errorf("withdrawn: %s", what)
	}
}

// expectServing changes an endpoint of each cluster, and waits until the other cluster has imported
// that: what happened in either before was processed then. It checks that nothing was withdrawn.
func (x *exchange) expectServing(t *testing.T) {
	t.Helper()
	x.barriers++
	x.expectFollowing(t, west(), east(), fmt.Sprintf("10.9.1.%d", x.barriers))
	expectLeading(t, west())
	x.expectFollowing(t, east(), west(), fmt.Sprintf("10.9.2.%d", x.barriers))
	x.expectNothingWithdrawn(t)
}

// expectLeading waits until mcs-controller of a cluster has led for longer than it does after its
// server failed.
func expectLeading(t *testing.T, cluster *fleet.Cluster) {
	t.Helper()
	begun := time.Now()
	expect.Eventually(t, "leader in "+cluster.ID, func(ctx context.Context) error {
		lease, err := cluster.Kubernetes.CoordinationV1().Leases(installation.Namespace).Get(ctx, "mcs-controller", metav1.GetOptions{})
		if err == nil && (lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Sub(begun) < 5*time.Second) {
			err = fmt.Errorf("lease was last renewed at %s", lease.Spec.RenewTime)
		}
		return err
	})
}

// expectFollowing changes the endpoint of a cluster, and waits until another one has imported that.
func (x *exchange) expectFollowing(t *testing.T, from, to *fleet.Cluster, address string) {
	t.Helper()
	own := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service}
	slice := expect.Must(from.Kubernetes.DiscoveryV1().EndpointSlices(x.namespace).List(t.Context(), own))(t).Items[0]
	slice.Endpoints[0].Addresses = []string{address}
	expect.Must(from.Kubernetes.DiscoveryV1().EndpointSlices(x.namespace).Update(t.Context(), &slice, metav1.UpdateOptions{}))(t)
	imported := metav1.ListOptions{LabelSelector: multicluster.ServiceNameLabel + "=" + service + "," + multicluster.SourceClusterLabel + "=" + from.ID}
	expect.Eventually(t, "endpoint "+address+" of "+from.ID+" in "+to.ID, func(ctx context.Context) error {
		found, err := to.Kubernetes.DiscoveryV1().EndpointSlices(x.namespace).List(ctx, imported)
		if err == nil && (len(found.Items) != 1 || len(found.Items[0].Endpoints) != 1 || found.Items[0].Endpoints[0].Addresses[0] != address) {
			err = fmt.Errorf("got %v", found.Items)
		}
		return err
	})
}

// expectWithdrawn waits until all clusters have withdrawn the export of west. If nothing
// was seen of that, nothing else would have been seen either.
func (x *exchange) expectWithdrawn(t *testing.T) {
	t.Helper()
	for _, cluster := range clusters.Clusters {
		expect.Eventually(t, "withdrawal in "+cluster.ID, func(context.Context) error {
			x.mu.Lock()
			defer x.mu.Unlock()
			for _, kind := range []string{"EndpointSlice", "ServiceImport"} {
				if subject := cluster.ID + ": " + kind + " "; !slices.ContainsFunc(x.withdrawn, func(what string) bool { return strings.HasPrefix(what, subject) }) {
					return fmt.Errorf("no %s was withdrawn: %v", kind, x.withdrawn)
				}
			}
			return nil
		})
	}
}

// expectUnchanged waits until all clusters are working, and checks that nothing was
// withdrawn, and that all objects are those from the beginning.
func (x *exchange) expectUnchanged(t *testing.T) {
	t.Helper()
	x.barriers++
	for _, from := range clusters.Clusters {
		// What happened before was processed when an export that was created now is
		// imported.
		name := fmt.Sprintf("barrier-%d-%s", x.barriers, from.ID)
		expect.Eventually(t, "export of "+name, func(ctx context.Context) error { return x.exportLater(ctx, from, name) })
		for _, to := range clusters.Clusters {
			to.AwaitImport(t, x.namespace, name, from.ID)
			expect.Eventually(t, "derived Service of "+name+" in "+to.ID, func(ctx context.Context) error {
				derived, err := to.Kubernetes.CoreV1().Services(x.namespace).List(ctx, metav1.ListOptions{LabelSelector: multicluster.ServiceNameLabel + "=" + name})
				if err == nil && len(derived.Items) == 0 {
					err = errors.New("does not exist")
				}
				return err
			})
		}
	}
	for _, cluster := range clusters.Clusters {
		expect.Eventually(t, "same objects in "+cluster.ID, func(ctx context.Context) error {
			now, err := x.state(ctx, cluster)
			if err == nil && !maps.Equal(now, x.before[cluster.ID]) {
				err = fmt.Errorf("got %v, had %v", now, x.before[cluster.ID])
			}
			return err
		})
	}
	x.expectNothingWithdrawn(t)
}

// exportLater exports another Service.
func (x *exchange) exportLater(ctx context.Context, from *fleet.Cluster, name string) error {
	_, errService := from.Service(ctx, x.namespace, name)
	_, errExport := from.Export(ctx, x.namespace, name)
	for _, err := range []error{errService, errExport} {
		if err != nil && !apierrors.IsAlreadyExists(err) { // it may be repeated
			return err
		}
	}
	return nil
}

// state returns the UIDs of the claims of a cluster, and of everything that it exports
// and imports: not before it has imported the Service from all clusters.
func (x *exchange) state(ctx context.Context, cluster *fleet.Cluster) (map[string]string, error) {
	found := map[string]string{}
	imported, err := cluster.Import(ctx, x.namespace, service)
	if err != nil {
		return nil, err
	}
	if exporters := fleet.Exporters(imported); len(exporters) != len(clusters.Clusters) {
		return nil, fmt.Errorf("imported from %v only", exporters)
	}
	found["ServiceImport"] = string(imported.UID)
	exported, err := cluster.Clientset.MulticlusterXV1beta1().ServiceExports(x.namespace).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	found["ServiceExport"] = string(exported.UID)
	claims, err := cluster.Clientset.MulticlusterV1().ClusterClaims().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, claim := range claims.Items {
		found["ClusterClaim "+claim.Name] = string(claim.UID)
	}
	return found, errors.Join(x.addDerived(ctx, cluster, found), complete(found))
}

func (x *exchange) addDerived(ctx context.Context, cluster *fleet.Cluster, found map[string]string) error {
	selector := metav1.ListOptions{LabelSelector: multicluster.ServiceNameLabel + "=" + service}
	services, err := cluster.Kubernetes.CoreV1().Services(x.namespace).List(ctx, selector)
	if err != nil {
		return err
	}
	for i := range services.Items {
		found["derived Service"] = fmt.Sprint(services.Items[i].UID, services.Items[i].Spec.ClusterIPs)
	}
	endpointSlices, err := cluster.Kubernetes.DiscoveryV1().EndpointSlices(x.namespace).List(ctx, selector)
	if err != nil {
		return err
	}
	for i := range endpointSlices.Items {
		found["EndpointSlice of "+endpointSlices.Items[i].Labels[multicluster.SourceClusterLabel]] = string(endpointSlices.Items[i].UID)
	}
	return nil
}

// complete returns an error if a kind of object is missing.
func complete(found map[string]string) error {
	wanted := []string{"ServiceImport", "ServiceExport", "derived Service", "ClusterClaim " + multicluster.ClusterIDClaim, "ClusterClaim " + multicluster.ClusterSetClaim}
	for _, cluster := range clusters.Clusters {
		wanted = append(wanted, "EndpointSlice of "+cluster.ID)
	}
	for _, key := range wanted {
		if found[key] == "" {
			return fmt.Errorf("%s is missing, found %v", key, slices.Sorted(maps.Keys(found)))
		}
	}
	return nil
}
