// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	mcsfake "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/clientset/versioned/fake"
	mcsinformers "github.com/mcs-apiserver/mcs-apiserver/pkg/generated/informers/externalversions"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/preference"
)

// world is a controller that is not running. Tests fill its caches.
type world struct {
	*Controller
	client *kubernetesfake.Clientset
	// served are the imports that mcs-apiserver serves.
	served *mcsfake.Clientset
	clock  *testingclock.FakeClock
	caches map[string]cache.Indexer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{client: kubernetesfake.NewClientset(), served: mcsfake.NewSimpleClientset(), clock: testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	host := informers.NewSharedInformerFactory(w.client, 0)
	own := mcsinformers.NewSharedInformerFactory(w.served, 0)
	var err error
	if w.Controller, err = New(w.client, w.served, w.clock, nil, preference.Auto, host, own); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.queue.ShutDown)
	w.caches = map[string]cache.Indexer{
		"import": own.MulticlusterX().V1beta1().ServiceImports().Informer().GetIndexer(), "member": own.ClusterSet().V1alpha1().Members().Informer().GetIndexer(),
		"exported": w.exported, "exportedSlice": w.exportedSlices, "service": w.services, "slice": w.slices,
		"node": host.Core().V1().Nodes().Informer().GetIndexer(),
	}
	return w
}

// hold adds an object to a cache.
func (w *world) hold(t *testing.T, kind string, object runtime.Object) {
	t.Helper()
	if err := w.caches[kind].Update(object); err != nil {
		t.Fatal(err)
	}
}

func (w *world) export(t *testing.T, exports ...exporter) {
	t.Helper()
	for _, export := range exports {
		w.hold(t, "exported", export.service)
		for _, slice := range export.slices {
			w.hold(t, "exportedSlice", slice)
		}
	}
}

// written returns the requests since the last call, as "verb resource".
func (w *world) written() string {
	var found []string
	for _, action := range w.client.Actions() {
		found = append(found, action.GetVerb()+" "+action.GetResource().Resource)
	}
	w.client.ClearActions()
	slices.Sort(found)
	return strings.Join(found, ", ")
}

// queued returns and removes the keys of the queue.
func (w *world) queued() string {
	var keys []string
	for w.queue.Len() > 0 {
		key, _ := w.queue.Get()
		w.queue.Done(key)
		keys = append(keys, strings.TrimSuffix(key.String()+"@"+key.cluster, "@"))
	}
	slices.Sort(keys)
	return strings.Join(keys, ",")
}

func TestImportIsMaterializedOnce(t *testing.T) {
	w := newWorld(t)
	w.hold(t, "import", newImport())
	w.export(t, exportedBy("here", ready("10.0.0.1")), exportedBy("east", ready("10.1.0.1")))
	w.sync1(t)
	if got := w.written(); got != "create endpointslices, create endpointslices, create services" {
		t.Errorf("got requests %q", got)
	}
	w.settle(t)
	w.sync1(t)
	if got := w.written(); got != "" {
		t.Errorf("got requests %q although nothing changed", got)
	}
	w.export(t, exportedBy("east", ready("10.1.0.2")))
	w.sync1(t)
	if got := w.written(); got != "update endpointslices" {
		t.Errorf("got requests %q for one change, want one update", got)
	}
}

// reconcile reconciles the derived Service of an import and, with that Service in the
// cache, the slices of all clusters.
func (w *world) reconcile(t *testing.T, name types.NamespacedName) error {
	t.Helper()
	errs := []error{w.sync(t.Context(), ofService(name))}
	object, err := w.client.Tracker().Get(corev1.SchemeGroupVersion.WithResource("services"), name.Namespace, multicluster.DerivedServiceName(name.Namespace, name.Name))
	if err == nil {
		w.hold(t, "service", object)
	}
	for cluster := range w.sources(name) {
		errs = append(errs, w.sync(t.Context(), key{name, cluster}))
	}
	return errors.Join(errs...)
}

func (w *world) sync1(t *testing.T) {
	t.Helper()
	if err := w.reconcile(t, web); err != nil {
		t.Fatal(err)
	}
}

// settle adds what was written to the caches.
func (w *world) settle(t *testing.T) {
	t.Helper()
	services, err := w.client.CoreV1().Services("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range services.Items {
		w.hold(t, "service", &services.Items[i])
	}
	found, err := w.client.DiscoveryV1().EndpointSlices("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range found.Items {
		w.hold(t, "slice", &found.Items[i])
	}
	w.client.ClearActions()
}

// Objects that the controller does not manage are neither changed nor deleted, whatever
// their names.
func TestUnmanagedObjectsAreNotTouched(t *testing.T) {
	w := newWorld(t)
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: derived, Labels: map[string]string{multicluster.ServiceNameLabel: "web"}}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: derived + "-x", Labels: map[string]string{
		multicluster.ServiceNameLabel: "web", multicluster.SourceClusterLabel: "east", discoveryv1.LabelServiceName: derived, discoveryv1.LabelManagedBy: "other",
	}}}
	w.hold(t, "service", foreign)
	w.hold(t, "slice", slice)
	w.sync1(t) // without an import
	if got := w.written(); got != "" {
		t.Errorf("got requests %q", got)
	}
	w.hold(t, "import", newImport())
	w.export(t, exportedBy("east", ready("10.1.0.1")))
	if err := w.reconcile(t, web); err == nil || !strings.Contains(err.Error(), derived) || !strings.Contains(err.Error(), "name conflict") || !strings.Contains(err.Error(), "delete it") {
		t.Errorf("got error %v, want a name conflict", err)
	}
	if got := w.written(); got != "" {
		t.Errorf("got requests %q", got)
	}
	w.serviceChanged(foreign)
	w.enqueueOwned(slice)
	if got := w.queued(); got != "" {
		t.Errorf("enqueued %s", got)
	}
}

// R272: an import with a name that was chosen so that its derived Service has the name of
// another one neither changes nor deletes that one.
func TestDerivedServicesOfOtherImportsAreNotTouched(t *testing.T) {
	w := newWorld(t)
	other := defaulted(desiredService(nil, newImport(), variant{}))
	other.Labels[multicluster.ServiceNameLabel] = "other"
	w.hold(t, "service", other)
	w.hold(t, "import", newImport())
	w.export(t, exportedBy("east", ready("10.1.0.1")))
	if err := w.reconcile(t, web); err == nil || !strings.Contains(err.Error(), "name conflict") || !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("got error %v, want a name conflict", err)
	}
	if err := w.caches["import"].Delete(newImport()); err != nil {
		t.Fatal(err)
	}
	w.sync1(t)
	if got := w.written(); got != "" {
		t.Errorf("got requests %q", got)
	}
}

func TestObjectsOfDeletedImportAreDeleted(t *testing.T) {
	w := newWorld(t)
	w.hold(t, "import", newImport())
	w.export(t, exportedBy("east", ready("10.1.0.1")))
	w.sync1(t)
	w.settle(t)
	if err := w.caches["import"].Delete(newImport()); err != nil {
		t.Fatal(err)
	}
	w.sync1(t)
	if got := w.written(); got != "delete endpointslices, delete services" {
		t.Errorf("got requests %q", got)
	}
}

// R48: while an import is replaced by one with another UID, or mcs-apiserver cannot be
// asked, its objects stay: they are deleted only if the server has no such import.
func TestObjectsOfReplacedImportStay(t *testing.T) {
	w := newWorld(t)
	w.hold(t, "import", newImport())
	w.export(t, exportedBy("east", ready("10.1.0.1")))
	w.sync1(t)
	w.settle(t)
	if err := errors.Join(w.caches["import"].Delete(newImport()), w.served.Tracker().Add(newImport())); err != nil {
		t.Fatal(err)
	}
	w.serviceChanged(defaulted(desiredService(nil, newImport(), variant{})))
	w.sync1(t)
	if got := w.written(); got != "" || !w.hadAddresses(web) {
		t.Errorf("got requests %q; cluster IPs are remembered: %t", got, w.hadAddresses(web))
	}
	w.served.PrependReactor("get", "serviceimports", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewServiceUnavailable("starting")
	})
	if err := w.reconcile(t, web); !apierrors.IsServiceUnavailable(err) || w.written() != "" {
		t.Errorf("got error %v", err)
	}
	w.hold(t, "import", newImport())
	w.sync1(t)
	if got := w.written(); got != "" {
		t.Errorf("got requests %q for the new import", got)
	}
}

// R48: also if no event about it has been handled when the cache does not have it any more.
func TestServiceThatIsDeletedAtOnceGetsItsClusterIPsBack(t *testing.T) {
	w := newWorld(t)
	w.hold(t, "import", newImport())
	var asked []string
	w.client.PrependReactor("create", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
		service := action.(clienttesting.CreateAction).GetObject().(*corev1.Service)
		asked = append(asked, fmt.Sprint(service.Spec.ClusterIPs))
		return true, defaulted(service), nil
	})
	for range 2 {
		if err := w.reconcile(t, web); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(asked, " "); got != "[] [10.96.0.5]" {
		t.Errorf("requested %s", got)
	}
}

// R48: a deleted derived Service is created again with its cluster IPs. They are given up
// only after they have been refused for a while: an unavailable server does not count.
func TestDeletedServiceGetsItsClusterIPsBack(t *testing.T) {
	w := newWorld(t)
	w.hold(t, "import", newImport())
	w.serviceChanged(defaulted(desiredService(nil, newImport(), variant{}))) // the event of its deletion
	var answer error
	var asked []string
	w.client.PrependReactor("create", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
		service := action.(clienttesting.CreateAction).GetObject().(*corev1.Service)
		asked = append(asked, fmt.Sprint(service.Spec.ClusterIPs, service.Spec.IPFamilies))
		if len(service.Spec.ClusterIPs) == 0 {
			return true, service, nil
		}
		return true, service, answer
	})
	const former, unset = "[10.96.0.5] [IPv4]", "[] []"
	for i, step := range []struct {
		passed time.Duration
		answer error
		failed bool
		want   string
	}{
		{0, apierrors.NewInternalError(fmt.Errorf("down")), true, former},
		{time.Hour, apierrors.NewInternalError(fmt.Errorf("down")), true, former},
		{0, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), derived, nil), true, former},
		{reclaimTime - 1, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), derived, nil), true, former},
		{1, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), derived, nil), false, former + unset},
		{0, nil, false, former},
	} {
		w.clock.Step(step.passed)
		answer, asked = step.answer, nil
		err := w.reconcile(t, web)
		if got := strings.Join(asked, ""); got != step.want || (err != nil) != step.failed {
			t.Errorf("step %d: requested %s, want %s: %v", i, got, step.want, err)
		}
	}
	// A headless Service has none, and a new import of the same name may get others.
	w.hold(t, "import", newImport(makeHeadless))
	asked = nil
	_ = w.reconcile(t, web)
	if err := w.caches["import"].Delete(newImport()); err != nil {
		t.Fatal(err)
	}
	w.sync1(t)
	w.hold(t, "import", newImport())
	w.sync1(t)
	if got := strings.Join(asked, ""); got != unset+unset {
		t.Errorf("requested %s", got)
	}
}
