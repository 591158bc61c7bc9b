// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// observer follows the imported EndpointSlices as kube-proxy does. It holds no objects.
type observer struct {
	mu sync.Mutex
	// ready are the numbers of ready endpoints by name, and endpoints is their sum.
	ready     map[string]int
	endpoints int
	// withdrawn is how many endpoints were withdrawn so far.
	withdrawn int
	// awaited are the addresses that somebody waits for.
	awaited map[string]chan time.Time
}

// watchSlices follows the imported EndpointSlices until the test ends.
func (r *run) watchSlices() *observer {
	o := &observer{ready: map[string]int{}, awaited: map[string]chan time.Time{}}
	api := r.home.Kubernetes.DiscoveryV1().EndpointSlices(importing)
	selector := discoveryv1.LabelManagedBy + "=" + multicluster.ManagedBy
	r.reflect(&discoveryv1.EndpointSlice{}, o, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			return api.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			return api.Watch(ctx, options)
		},
	})
	return o
}

// reflect passes objects to a store until the test ends.
func (r *run) reflect(example runtime.Object, store cache.ReflectorStore, source *cache.ListWatch) {
	ctx, stop := context.WithCancel(r.Context())
	reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(source, r.home.Kubernetes), example, store, cache.ReflectorOptions{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		reflector.RunWithContext(ctx)
	}()
	r.Cleanup(func() {
		stop()
		<-ended
	})
}

// counts returns how many EndpointSlices there are, and how many ready endpoints they have.
func (o *observer) counts() (slices, endpoints int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.ready), o.endpoints
}

// lost returns how many endpoints were withdrawn so far.
func (o *observer) lost() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.withdrawn
}

// await returns a channel that gets the time at which an address arrives.
func (o *observer) await(address string) <-chan time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	arrival := make(chan time.Time, 1)
	o.awaited[address] = arrival
	return arrival
}

// Add implements cache.ReflectorStore.
func (o *observer) Add(object any) error {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	slice := object.(*discoveryv1.EndpointSlice)
	ready := 0
	for _, endpoint := range slice.Endpoints {
		if ptr.Deref(endpoint.Conditions.Ready, true) {
			ready++
		}
		if len(o.awaited) == 0 {
			continue
		}
		if arrival, ok := o.awaited[endpoint.Addresses[0]]; ok {
			arrival <- now
			delete(o.awaited, endpoint.Addresses[0])
		}
	}
	o.setLocked(slice.Name, ready)
	return nil
}

func (o *observer) setLocked(name string, ready int) {
	before := o.ready[name]
	o.withdrawn += max(before-ready, 0)
	o.endpoints += ready - before
	o.ready[name] = ready
}

// Update implements cache.ReflectorStore.
func (o *observer) Update(object any) error { return o.Add(object) }

// Delete implements cache.ReflectorStore.
func (o *observer) Delete(object any) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := object.(*discoveryv1.EndpointSlice).Name
	o.setLocked(name, 0)
	delete(o.ready, name)
	return nil
}

// Replace implements cache.ReflectorStore.
func (o *observer) Replace(objects []any, _ string) error {
	present := map[string]bool{}
	for _, object := range objects {
		present[object.(*discoveryv1.EndpointSlice).Name] = true
		if err := o.Add(object); err != nil {
			return err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for name := range o.ready {
		if !present[name] {
			o.setLocked(name, 0)
			delete(o.ready, name)
		}
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (o *observer) Resync() error { return nil }

// floor is a ConfigMap about as large as an imported EndpointSlice, whose changes are what any
// change of an object costs.
type floor struct {
	run      *run
	arrivals chan time.Time

	mu      sync.Mutex
	number  int
	awaited string
}

const (
	floorName  = "scale-floor"
	floorBytes = 1500
)

func (r *run) watchFloor() *floor {
	f := &floor{run: r, arrivals: make(chan time.Time, 1)}
	api := r.home.Kubernetes.CoreV1().ConfigMaps(importing)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, floorName).String()
	expect.Must(api.Create(r.Context(), f.object(), metav1.CreateOptions{}))(r.T)
	r.reflect(&corev1.ConfigMap{}, f, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			return api.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return api.Watch(ctx, options)
		},
	})
	<-f.arrivals // of the first state
	return f
}

// object returns the next state of the ConfigMap, which is awaited from now on.
func (f *floor) object() *corev1.ConfigMap {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.number++
	f.awaited = strconv.Itoa(f.number)
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: floorName}, Data: map[string]string{"number": f.awaited, "text": strings.Repeat("x", floorBytes)}}
}

// Add implements cache.ReflectorStore.
func (f *floor) Add(object any) error {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if object.(*corev1.ConfigMap).Data["number"] == f.awaited {
		f.awaited = ""
		f.arrivals <- now
	}
	return nil
}

// Update implements cache.ReflectorStore.
func (f *floor) Update(object any) error { return f.Add(object) }

// Delete implements cache.ReflectorStore.
func (f *floor) Delete(any) error { return nil }

// Replace implements cache.ReflectorStore.
func (f *floor) Replace(objects []any, _ string) error {
	for _, object := range objects {
		if err := f.Add(object); err != nil {
			return err
		}
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (f *floor) Resync() error { return nil }
