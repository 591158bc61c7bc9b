// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/fleet"
)

// R45: when the type changes, no objects of the previous type remain. R509: the import always
// has what DNS answers with, and the derived Service and the imported EndpointSlices of clusters
// that export the Service stay.
func TestTypeChangesWithoutLeftovers(t *testing.T) {
	ns := fleet.CreateNamespace(t, "flipping", east(), west())
	east().ExportService(t, ns, "web", []string{"10.9.0.1"}, makeHeadless)
	var observers []*observer
	for _, cluster := range clusters.Clusters {
		service, _ := awaitEndpoints(t, cluster, ns, "web", from{"east": {"10.9.0.1"}})
		observers = append(observers, observe(t, cluster, ns, service.UID))
	}
	awaitNextSecond(t) // the export of east is the oldest
	west().ExportService(t, ns, "web", []string{"10.8.0.1"})
	both := from{"east": {"10.9.0.1"}, "west": {"10.8.0.1"}}
	for _, cluster := range clusters.Clusters {
		awaitType(t, cluster, ns, true, both)
	}
	unexport(t, east(), ns)
	for _, cluster := range clusters.Clusters {
		awaitType(t, cluster, ns, false, from{"west": {"10.8.0.1"}})
	}
	awaitNextSecond(t)
	expect.Must(east().Export(t.Context(), ns, "web"))(t) // now the youngest export
	ips := map[string]string{}
	for _, cluster := range clusters.Clusters {
		ips[cluster.ID] = awaitType(t, cluster, ns, false, both).Spec.ClusterIP
	}
	unexport(t, west(), ns)
	for _, cluster := range clusters.Clusters {
		awaitType(t, cluster, ns, true, from{"east": {"10.9.0.1"}})
	}
	// R48: the IP of an import is kept for the lifetime of the import.
	awaitNextSecond(t)
	expect.Must(west().Export(t.Context(), ns, "web"))(t)
	for _, cluster := range clusters.Clusters {
		awaitType(t, cluster, ns, true, both)
	}
	unexport(t, east(), ns)
	for _, cluster := range clusters.Clusters {
		if ip := awaitType(t, cluster, ns, false, from{"west": {"10.8.0.1"}}).Spec.ClusterIP; ip != ips[cluster.ID] {
			t.Errorf("%s: IP was %s, is %s", cluster.ID, ips[cluster.ID], ip)
		}
	}
	for _, observer := range observers {
		observer.check(t)
	}
	unexport(t, west(), ns)
	for _, cluster := range clusters.Clusters {
		awaitNothing(t, cluster, ns, "web")
	}
}

// observer watches an import and its objects.
type observer struct {
	cluster string
	mu      sync.Mutex
	checked bool
	events  int
	types   map[multiclusterxv1beta1.ServiceImportType]bool
	wrong   []string
	// assigned are the versions at which the derived Service had cluster IPs, and labels whether
	// EndpointSlices were those of a headless Service, by name, in the order of versions.
	assigned []uint64
	labels   map[string][]labeled
}

type labeled struct {
	version uint64
	is      bool
}

// observe watches an import whose derived Service has a UID.
func observe(t *testing.T, in *fleet.Cluster, ns string, uid types.UID) *observer {
	t.Helper()
	o := &observer{cluster: in.ID, types: map[multiclusterxv1beta1.ServiceImportType]bool{}, labels: map[string][]labeled{}}
	o.watch(t, expect.Must(in.Clientset.MulticlusterXV1beta1().ServiceImports(ns).Watch(t.Context(), metav1.ListOptions{}))(t), func(event watch.Event) string {
		found, ok := event.Object.(*multiclusterxv1beta1.ServiceImport)
		if !ok {
			return fmt.Sprintf("%s %v", event.Type, event.Object)
		}
		o.types[found.Spec.Type] = true
		if event.Type == watch.Deleted || found.Spec.Type == multiclusterxv1beta1.ClusterSetIP && len(found.Spec.IPs) == 0 {
			return fmt.Sprintf("%s import with IPs %v: %v", event.Type, found.Spec.IPs, found.Status.Conditions)
		}
		return ""
	})
	o.watch(t, expect.Must(in.Kubernetes.CoreV1().Services(ns).Watch(t.Context(), metav1.ListOptions{LabelSelector: multicluster.ServiceNameLabel}))(t), func(event watch.Event) string {
		service, ok := event.Object.(*corev1.Service)
		if !ok || event.Type == watch.Deleted || service.UID != uid {
			return fmt.Sprintf("%s %v", event.Type, event.Object)
		}
		if service.Spec.ClusterIP != "" && service.Spec.ClusterIP != corev1.ClusterIPNone {
			o.assigned = append(o.assigned, version(t, service))
		}
		return ""
	})
	o.watch(t, expect.Must(in.Kubernetes.DiscoveryV1().EndpointSlices(ns).Watch(t.Context(), metav1.ListOptions{LabelSelector: multicluster.ServiceNameLabel}))(t), func(event watch.Event) string {
		slice, ok := event.Object.(*discoveryv1.EndpointSlice)
		if !ok || slice.OwnerReferences[0].UID != uid {
			return fmt.Sprintf("%s %v", event.Type, event.Object)
		}
		_, is := slice.Labels[corev1.IsHeadlessService]
		o.labels[slice.Name] = append(o.labels[slice.Name], labeled{version(t, slice), is && event.Type != watch.Deleted})
		return ""
	})
	return o
}

// watch collects what is wrong with the events of a watch.
func (o *observer) watch(t *testing.T, events watch.Interface, wrong func(watch.Event) string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range events.ResultChan() {
			o.mu.Lock()
			o.events++
			if text := wrong(event); text != "" && !o.checked {
				o.wrong = append(o.wrong, text)
			}
			o.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		events.Stop()
		<-done
	})
}

// version returns the resourceVersion of an object. Those of Services and EndpointSlices
// compare: they are in one etcd.
func version(t *testing.T, object metav1.Object) uint64 {
	parsed, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Error(err)
	}
	return parsed
}

// check fails the test because of what was wrong until now.
func (o *observer) check(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.checked = true
	if len(o.types) != 2 || o.events < 20 {
		t.Errorf("%s: saw %d events with types %v", o.cluster, o.events, o.types)
	}
	for _, at := range o.assigned {
		for name, states := range o.labels {
			next := slices.IndexFunc(states, func(state labeled) bool { return state.version > at })
			if next < 0 {
				next = len(states)
			}
			if next > 0 && states[next-1].is {
				t.Errorf("%s: kube-proxy ignores slice %s although there is an IP", o.cluster, name)
			}
		}
	}
	for _, text := range o.wrong {
		t.Errorf("%s: %s", o.cluster, text)
	}
}

// awaitType waits until derived Service and slices are those of a headless
// import, or of an import with an IP.
func awaitType(t *testing.T, in *fleet.Cluster, ns string, headless bool, want from) *corev1.Service {
	t.Helper()
	var found *corev1.Service
	expect.Eventually(t, fmt.Sprintf("type of %s in %s", ns, in.ID), func(ctx context.Context) error {
		service, err := derivedService(ctx, in, ns, "web")
		if err != nil {
			return err
		}
		if service == nil || service.Spec.ClusterIP == "" || (service.Spec.ClusterIP == corev1.ClusterIPNone) != headless {
			return fmt.Errorf("derived Service is %v", service)
		}
		found = service
		imported, err := importedSlices(ctx, in, ns, "web")
		if err != nil {
			return err
		}
		for _, slice := range imported {
			if _, marked := slice.Labels[corev1.IsHeadlessService]; marked != headless || slice.OwnerReferences[0].UID != service.UID {
				return fmt.Errorf("slice %s: headless label is %t, owners are %v", slice.Name, marked, slice.OwnerReferences)
			}
		}
		return nil
	})
	awaitEndpoints(t, in, ns, "web", want)
	awaitImport(t, in, ns, metav1.ConditionTrue)
	return found
}
