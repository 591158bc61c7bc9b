// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// changeEvery is how often an endpoint of the honest member changes. Each service
// changes less than once a second, so that its changes are not delayed.
const (
	changeEvery    = 30 * time.Millisecond
	honestServices = 40
)

// fixedAddress returns the address of an endpoint that a service always has.
func fixedAddress(service int) string { return fmt.Sprintf("10.8.0.%d", service+1) }

// importedFrom selects the imported EndpointSlices of a cluster.
func importedFrom(cluster string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: from(cluster).LabelSelector + "," + discoveryv1.LabelManagedBy + "=" + multicluster.ManagedBy}
}

// from selects what a cluster exports.
func from(cluster string) metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: multicluster.SourceClusterLabel + "=" + cluster}
}

// change is a change of an endpoint of the honest member.
type change struct {
	written time.Time
	// took is how long it took to arrive in an imported EndpointSlice, 0 until it did.
	took time.Duration
}

// observation is what is observed of the imports from the honest member.
type observation struct {
	namespace string
	services  []string

	// imports are all imports of the importer, not only those from the honest member.
	imports cache.Store

	mu sync.Mutex
	// changes are by the address that was added.
	changes map[string]*change
	// uids are those of the imports.
	uids map[string]types.UID
	// violations are what must not happen.
	violations []string
}

// observe changes endpoints of the honest member and observes what is imported until
// the test ends.
func observe(t *testing.T, namespace string, services []string) *observation {
	t.Helper()
	o := &observation{namespace: namespace, services: services, changes: map[string]*change{}, uids: map[string]types.UID{}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	slices := importer().Kubernetes.DiscoveryV1().EndpointSlices(namespace)
	imports := importer().Clientset.MulticlusterXV1beta1().ServiceImports(metav1.NamespaceAll)
	_, imported := inform(&discoveryv1.EndpointSlice{}, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = importedFrom("honest").LabelSelector
			return slices.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = importedFrom("honest").LabelSelector
			return slices.Watch(ctx, options)
		},
	}, o.sawSlice, o.lostSlice)
	store, all := inform(&multiclusterxv1beta1.ServiceImport{}, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return imports.List(ctx, options)
		},
		WatchFuncWithContext: imports.Watch,
	}, o.sawImport, o.lostImport)
	o.imports = store
	for _, informer := range []cache.Controller{imported, all} {
		running.Go(func() { informer.RunWithContext(ctx) })
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			t.Fatal("imports cannot be read")
		}
	}
	running.Go(func() { o.changeUntil(ctx) })
	return o
}

// inform returns an informer, with its store, that passes on objects that were added or
// modified, and those that were deleted.
func inform[T runtime.Object](example T, source *cache.ListWatch, saw, lost func(T)) (cache.Store, cache.Controller) {
	return cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: source, ObjectType: example, Handler: cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { saw(object.(T)) },
		UpdateFunc: func(_, object any) { saw(object.(T)) },
		DeleteFunc: func(object any) {
			if deleted, ok := object.(T); ok {
				lost(deleted)
			}
		},
	}})
}

// changeUntil changes one endpoint after the other until the context ends.
func (o *observation) changeUntil(ctx context.Context) {
	ticker := time.NewTicker(changeEvery)
	defer ticker.Stop()
	for number := 0; ; number++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		service := number % len(o.services)
		address := fmt.Sprintf("10.9.%d.%d", number>>8&0xff, number&0xff)
		made := &change{}
		o.mu.Lock()
		o.changes[address] = made
		o.mu.Unlock()
		_, err := honest().EndpointSlice(ctx, o.namespace, o.services[service], []string{fixedAddress(service), address})
		o.mu.Lock()
		if made.written = time.Now(); err != nil {
			delete(o.changes, address)
			if ctx.Err() == nil {
				o.violations = append(o.violations, fmt.Sprintf("change of the honest member: %v", err))
			}
		}
		o.mu.Unlock()
	}
}

// sawSlice takes an imported EndpointSlice of the honest member.
func (o *observation) sawSlice(slice *discoveryv1.EndpointSlice) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	number := slices.Index(o.services, slice.Labels[multicluster.ServiceNameLabel])
	present := false
	for _, endpoint := range slice.Endpoints {
		present = present || endpoint.Addresses[0] == fixedAddress(number) && *endpoint.Conditions.Ready
		if made := o.changes[endpoint.Addresses[0]]; made != nil && made.took == 0 {
			made.took = time.Nanosecond // before the response to the write
			if !made.written.IsZero() {
				made.took = now.Sub(made.written)
			}
		}
	}
	if !present {
		o.violations = append(o.violations, fmt.Sprintf("endpoint %s of honest service %d was withdrawn", fixedAddress(number), number))
	}
}

func (o *observation) lostSlice(slice *discoveryv1.EndpointSlice) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.violations = append(o.violations, fmt.Sprintf("imported EndpointSlice %s of the honest member was deleted", slice.Name))
}

// sawImport takes an import of the honest member, which must keep its properties.
func (o *observation) sawImport(found *multiclusterxv1beta1.ServiceImport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.honest(found) {
		return
	}
	if uid, known := o.uids[found.Name]; known && uid != found.UID {
		o.violations = append(o.violations, fmt.Sprintf("import %s was replaced", found.Name))
	}
	o.uids[found.Name] = found.UID
	honestly := slices.ContainsFunc(found.Spec.Ports, func(port multiclusterxv1beta1.ServicePort) bool { return port.Name == "http" && port.Port == 80 })
	exported := slices.ContainsFunc(found.Status.Clusters, func(cluster multiclusterxv1beta1.ClusterStatus) bool { return cluster.Cluster == "honest" })
	if found.Spec.Type != multiclusterxv1beta1.ClusterSetIP || len(found.Spec.IPs) == 0 || !honestly || !exported {
		o.violations = append(o.violations, fmt.Sprintf("import %s became %+v, exported by %+v", found.Name, found.Spec, found.Status.Clusters))
	}
}

func exporters(found *multiclusterxv1beta1.ServiceImport) (ids []string) {
	for _, cluster := range found.Status.Clusters {
		ids = append(ids, cluster.Cluster)
	}
	return ids
}

func (o *observation) lostImport(found *multiclusterxv1beta1.ServiceImport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.honest(found) {
		o.violations = append(o.violations, fmt.Sprintf("import %s was deleted", found.Name))
	}
}

// honest reports whether an import is that of a service of the honest member.
func (o *observation) honest(found *multiclusterxv1beta1.ServiceImport) bool {
	return found.Namespace == o.namespace && slices.Contains(o.services, found.Name)
}

// from returns how many services of a cluster are imported, as last observed: asking for
// all imports again and again would cost more than some attacks.
func (o *observation) from(cluster string) (count int) {
	for _, object := range o.imports.List() {
		if slices.Contains(exporters(object.(*multiclusterxv1beta1.ServiceImport)), cluster) {
			count++
		}
	}
	return count
}

// delays returns how long the changes took that were written in a period, sorted.
// Those that have not arrived count until its end.
func (o *observation) delays(from, to time.Time) []time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	var delays []time.Duration
	for _, made := range o.changes {
		switch {
		case made.written.IsZero() || made.written.Before(from) || made.written.After(to):
		case made.took == 0:
			delays = append(delays, to.Sub(made.written))
		default:
			delays = append(delays, made.took)
		}
	}
	slices.Sort(delays)
	return delays
}

// check reports all violations since the last call.
func (o *observation) check(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, violation := range o.violations {
		t.Error(violation)
	}
	o.violations = nil
}

// quantile returns the delay that a share of delays does not exceed.
func quantile(delays []time.Duration, share float64) time.Duration {
	if len(delays) == 0 {
		return 0
	}
	return delays[int(float64(len(delays)-1)*share)]
}

// awaitChanges waits until a number of changes were written after a time.
func (o *observation) awaitChanges(t *testing.T, since time.Time, count int) {
	t.Helper()
	expect.Within(t, patience, "changes of the honest member", func(context.Context) error {
		if found := len(o.delays(since, time.Now())); found < count {
			return fmt.Errorf("%d of %d", found, count)
		}
		return nil
	})
}
