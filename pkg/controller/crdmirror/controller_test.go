// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package crdmirror

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	coreinformers "k8s.io/client-go/informers/core/v1"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apiconflict"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/crdmigration"
)

const uid = types.UID("0a1b2c3d-0000-4000-8000-00000000000a")

var exports = crdmigration.Exports.In("v1beta1")

func fakeDynamic(objects ...runtime.Object) *dynamicfake.FakeDynamicClient {
	kinds := map[schema.GroupVersionResource]string{apiconflict.CRDResource: "CustomResourceDefinitionList", apiServices: "APIServiceList"}
	for _, resource := range crdmigration.Copied {
		for _, version := range resource.Versions {
			kinds[resource.In(version)] = resource.Kind + "List"
		}
	}
	return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, objects...)
}

func object(apiVersion, kind, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: fields}
	if fields == nil {
		object.Object = map[string]any{}
	}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	object.SetUID(uid)
	object.SetCreationTimestamp(metav1.NewTime(time.Unix(1_600_000_000, 0)))
	return object
}

func export(name string) *unstructured.Unstructured {
	return object("multicluster.x-k8s.io/v1beta1", "ServiceExport", "shop", name, nil)
}

func crd() *unstructured.Unstructured {
	return object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", crdmigration.Exports.CRD(), map[string]any{
		"spec":   map[string]any{"versions": []any{map[string]any{"name": "v1beta1", "served": true}}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}},
	})
}

func apiService(fields map[string]any) *unstructured.Unstructured {
	return object("apiregistration.k8s.io/v1", "APIService", "", "v1beta1.multicluster.x-k8s.io", map[string]any{"spec": fields})
}

// world is a cluster in which objects are copied.
type world struct {
	Clients
	t *testing.T
	// onList is called once, when copies are listed.
	onList atomic.Pointer[func() error]
}

// start runs the controller until the test ends. mcs-apiserver refuses objects named bad.
func start(t *testing.T, custom ...runtime.Object) *world {
	t.Helper()
	own := fakeDynamic()
	own.PrependReactor("create", "serviceexports", func(action clienttesting.Action) (bool, runtime.Object, error) {
		created := action.(clienttesting.CreateAction).GetObject().(*unstructured.Unstructured)
		if created.GetName() == "bad" {
			return true, nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ServiceExport"}, "bad", nil)
		}
		return false, nil, nil
	})
	mark := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "mcs-system", Name: clusterset.MigrationConfigMap}}
	crdmigration.SetPhase(mark, crdmigration.Copying)
	var w *world
	own.PrependReactor("list", "serviceexports", func(clienttesting.Action) (bool, runtime.Object, error) {
		if call := w.onList.Swap(nil); call != nil {
			return false, nil, (*call)()
		}
		return false, nil, nil
	})
	w = &world{t: t, Clients: Clients{
		Kubernetes: kubernetesfake.NewClientset(mark), Host: fakeDynamic(crd(), apiService(nil)), Custom: fakeDynamic(custom...), Own: own,
	}}
	marks := coreinformers.NewConfigMapInformer(w.Kubernetes, "mcs-system", 0, cache.Indexers{})
	go marks.RunWithContext(t.Context())
	controller := New(w.Clients, "mcs-system", marks)
	go func() { _ = controller.Run(t.Context()) }()
	w.settle()
	return w
}

func (w *world) settle() {
	time.Sleep(2 * reviewInterval)
	synctest.Wait()
}

func (w *world) names(client dynamic.Interface) string {
	w.t.Helper()
	list, err := client.Resource(exports).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.GetName())
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// writes returns how many requests changed objects of mcs-apiserver, or the mark.
func (w *world) writes() int {
	count := 0
	for _, action := range slices.Concat(w.Own.(*dynamicfake.FakeDynamicClient).Actions(), w.Kubernetes.(*kubernetesfake.Clientset).Actions()) {
		if verb := action.GetVerb(); verb != "get" && verb != "list" && verb != "watch" {
			count++
		}
	}
	return count
}

func (w *world) report() crdmigration.Report {
	w.t.Helper()
	mark, err := w.Kubernetes.CoreV1().ConfigMaps("mcs-system").Get(w.t.Context(), clusterset.MigrationConfigMap, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	report, err := crdmigration.ReportOf(mark)
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

// mark changes the mark.
func (w *world) mark(change func(*corev1.ConfigMap)) {
	w.t.Helper()
	marks := w.Kubernetes.CoreV1().ConfigMaps("mcs-system")
	mark, err := marks.Get(w.t.Context(), clusterset.MigrationConfigMap, metav1.GetOptions{})
	if err == nil {
		change(mark)
		_, err = marks.Update(w.t.Context(), mark, metav1.UpdateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) expect(names string) {
	w.t.Helper()
	w.settle()
	if got := w.names(w.Own); got != names {
		w.t.Errorf("mcs-apiserver has %q, want %q", got, names)
	}
}

// R473: objects are copied, updated and deleted as their sources are, those that mcs-apiserver
// refuses are reported by name and reason, and nothing is written while nothing changes.
func TestObjectsAreCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, export("a"), export("bad"))
		w.expect("a")
		custom := w.Custom.Resource(exports).Namespace("shop")
		list, err := custom.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		digest, err := crdmigration.Exports.Digest([]*unstructured.Unstructured{&list.Items[0], &list.Items[1]})
		if err != nil {
			t.Fatal(err)
		}
		report := w.report().Resources["serviceexports"]
		if report.Digest != digest || report.Copied != 1 || len(report.Refused) != 1 || report.Refused[0].Name != "shop/bad" || !strings.Contains(report.Refused[0].Reason, "is invalid") {
			t.Errorf("reported %+v", report)
		}
		w.mark(func(mark *corev1.ConfigMap) { crdmigration.Request(mark, "again") })
		w.settle()
		if report := w.report(); report.Request != "again" {
			t.Errorf("reported %+v", report)
		}
		if err := custom.Delete(t.Context(), "bad", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		before := w.writes()
		w.settle()
		if after := w.writes(); after != before {
			t.Errorf("%d writes while nothing changed", after-before)
		}
		if _, err := custom.Create(t.Context(), export("b"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.expect("a b")
		if err := custom.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.expect("b")
	})
}

// R473: while one version is handed over and the other is not, objects are read in the version
// that the kube-apiserver serves itself.
func TestObjectsAreCopiedWhileOneVersionIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := crdmigration.Exports.In("v1alpha1")
		w := start(t, object("multicluster.x-k8s.io/v1alpha1", "ServiceExport", "shop", "a", nil))
		definition := crd()
		_ = unstructured.SetNestedSlice(definition.Object, []any{map[string]any{"name": "v1beta1", "served": true}, map[string]any{"name": "v1alpha1", "served": true}}, "spec", "versions")
		local := apiService(nil)
		local.SetName("v1alpha1.multicluster.x-k8s.io")
		for _, err := range []error{
			w.write(apiconflict.CRDResource, definition), w.write(apiServices, apiService(map[string]any{"service": map[string]any{"name": "mcs-apiserver"}})), w.write(apiServices, local),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		w.settle()
		if _, err := w.Own.Resource(old).Namespace("shop").Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// R477: objects that users change right after the group-version was handed over are not reverted
// by copying that began before.
func TestNothingIsCopiedOnceHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, export("a"))
		w.expect("a")
		own := w.Own.(*dynamicfake.FakeDynamicClient)
		handOver := func() error {
			copied, err := own.Tracker().Get(exports, "shop", "a")
			if err != nil {
				return err
			}
			changed := copied.(*unstructured.Unstructured).DeepCopy()
			_ = unstructured.SetNestedField(changed.Object, "user", "spec", "exportedLabels", "by")
			return errors.Join(own.Tracker().Update(exports, changed, "shop"), w.write(apiServices, apiService(map[string]any{"service": map[string]any{"name": "mcs-apiserver"}})))
		}
		w.onList.Store(&handOver)
		w.settle()
		got, err := own.Resource(exports).Namespace("shop").Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if by, _, _ := unstructured.NestedString(got.Object, "spec", "exportedLabels", "by"); by != "user" {
			t.Errorf("the export was changed back to %v", got.Object)
		}
	})
}

// write creates or updates an object of the host.
func (w *world) write(gvr schema.GroupVersionResource, object *unstructured.Unstructured) error {
	_, err := w.Host.Resource(gvr).Update(w.t.Context(), object, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = w.Host.Resource(gvr).Create(w.t.Context(), object, metav1.CreateOptions{})
	}
	return err
}

// R473: objects that vanish with their CRD, or when the group-version was handed over, were not
// deleted by anybody: their copies stay.
func TestCopiesOutliveTheirCRD(t *testing.T) {
	for name, end := range map[string]func(*world) error{
		"CRD is being deleted": func(w *world) error {
			terminating := crd()
			now := metav1.Now()
			terminating.SetDeletionTimestamp(&now)
			_, err := w.Host.Resource(apiconflict.CRDResource).Update(t.Context(), terminating, metav1.UpdateOptions{})
			return err
		},
		"CRD is gone": func(w *world) error {
			return w.Host.Resource(apiconflict.CRDResource).Delete(t.Context(), crdmigration.Exports.CRD(), metav1.DeleteOptions{})
		},
		"handed over": func(w *world) error {
			ours := apiService(map[string]any{"service": map[string]any{"name": "mcs-apiserver"}})
			_, err := w.Host.Resource(apiServices).Update(t.Context(), ours, metav1.UpdateOptions{})
			return err
		},
		"returned": func(w *world) error {
			w.mark(func(mark *corev1.ConfigMap) { crdmigration.SetPhase(mark, crdmigration.Returned) })
			return nil
		},
		"no mark": func(w *world) error {
			defer synctest.Wait()
			return w.Kubernetes.CoreV1().ConfigMaps("mcs-system").Delete(t.Context(), clusterset.MigrationConfigMap, metav1.DeleteOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, export("a"))
				w.expect("a")
				if err := end(w); err != nil {
					t.Fatal(err)
				}
				if err := w.Custom.Resource(exports).Namespace("shop").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				w.expect("a")
			})
		})
	}
}
