// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// observer follows one resource of a cluster, and passes on its events. Nothing is between the
// watch and the time that is taken.
type observer struct {
	handle func(watch.EventType, any)

	mu   sync.Mutex
	keys map[string]struct{}
}

var _ cache.ReflectorStore = &observer{}

func observe(handle func(watch.EventType, any)) *observer {
	return &observer{handle: handle, keys: map[string]struct{}{}}
}

func (o *observer) seen(event watch.EventType, object any) error {
	o.handle(event, object)
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if event == watch.Deleted {
		delete(o.keys, key)
	} else {
		o.keys[key] = struct{}{}
	}
	return nil
}

func (o *observer) Add(object any) error    { return o.seen(watch.Added, object) }
func (o *observer) Update(object any) error { return o.seen(watch.Modified, object) }
func (o *observer) Delete(object any) error { return o.seen(watch.Deleted, object) }
func (o *observer) Resync() error           { return nil }

func (o *observer) Replace(objects []any, _ string) error {
	for _, object := range objects {
		if err := o.seen(watch.Added, object); err != nil {
			return err
		}
	}
	return nil
}

// len returns how many objects there are.
func (o *observer) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.keys)
}

// lister lists and watches one resource.
type lister[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// follow runs an observer of objects with labels until the context ends.
func follow[L runtime.Object](ctx context.Context, running *sync.WaitGroup, objects lister[L], selector string, example any, observer *observer) {
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			return objects.Watch(ctx, options)
		},
	}
	reflector := cache.NewReflectorWithOptions(source, example, observer, cache.ReflectorOptions{})
	running.Go(func() { reflector.RunWithContext(ctx) })
}

// observers are those of the importing cluster.
type observers struct{ imports, slices *observer }

// observeAll follows what arrives: ConfigMaps in both clusters, imports and imported
// EndpointSlices in the importing one.
func observeAll(ctx context.Context, running *sync.WaitGroup, exporting, importing *fleet.Cluster, arrivals *arrivals) observers {
	for _, cluster := range []*fleet.Cluster{exporting, importing} {
		configMaps := observe(func(_ watch.EventType, object any) {
			if configMap, ok := object.(*corev1.ConfigMap); ok {
				if change, err := strconv.Atoi(configMap.Data[floorKey]); err == nil {
					arrivals.arrive(cluster.ID+" "+configMap.Name, change)
				}
			}
		})
		follow(ctx, running, cluster.Kubernetes.CoreV1().ConfigMaps(floorNamespace), "", &corev1.ConfigMap{}, configMaps)
	}
	seen := observers{
		imports: observe(func(event watch.EventType, object any) {
			serviceImport, ok := object.(*multiclusterxv1beta1.ServiceImport)
			switch {
			case !ok:
			case event == watch.Deleted:
				arrivals.arrive(withdrawn(service{serviceImport.Namespace, serviceImport.Name}), 0)
			default:
				arrivals.arrive(exported(service{serviceImport.Namespace, serviceImport.Name}), 0)
			}
		}),
		slices: observe(func(event watch.EventType, object any) {
			slice, ok := object.(*discoveryv1.EndpointSlice)
			if !ok || event == watch.Deleted {
				return
			}
			of := service{slice.Namespace, slice.Labels[multicluster.ServiceNameLabel]}
			for _, endpoint := range slice.Endpoints {
				if change, ok := numberOf(endpoint.Addresses[0]); ok {
					arrivals.arrive(of.String(), change)
				}
			}
		}),
	}
	follow(ctx, running, importing.Clientset.MulticlusterXV1beta1().ServiceImports(metav1.NamespaceAll), "", &multiclusterxv1beta1.ServiceImport{}, seen.imports)
	follow(ctx, running, importing.Kubernetes.DiscoveryV1().EndpointSlices(metav1.NamespaceAll), multicluster.SourceClusterLabel+"="+exporting.ID, &discoveryv1.EndpointSlice{}, seen.slices)
	return seen
}
