// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/configmap"
)

func pod(name string) *example.Pod {
	return &example.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
}

func key(name string) string { return "/pods/shop/" + name }

func (h *harness) create(t *testing.T, name string) *example.Pod {
	t.Helper()
	created := &example.Pod{}
	if err := h.Create(t.Context(), key(name), pod(name), created, 0); err != nil {
		t.Fatal(err)
	}
	return created
}

func (h *harness) list(t *testing.T, options storage.ListOptions) (*example.PodList, error) {
	t.Helper()
	options.Recursive, options.Predicate.Label, options.Predicate.Field = true, storage.Everything.Label, storage.Everything.Field
	list := &example.PodList{}
	return list, h.GetList(t.Context(), "/pods", options, list)
}

func TestDeletedStorageNamespaceIsNotAnEmptyStore(t *testing.T) {
	h := newHarness(t)
	for i := range 20 {
		h.create(t, fmt.Sprintf("web-%d", i))
	}
	list, err := h.list(t, storage.ListOptions{})
	if err != nil || len(list.Items) != 20 {
		t.Fatalf("got %d objects, %v", len(list.Items), err)
	}
	watcher, err := h.Watch(t.Context(), "/pods", storage.ListOptions{ResourceVersion: list.ResourceVersion, Predicate: storage.Everything, Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	if err := h.client.CoreV1().Namespaces().Delete(t.Context(), h.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	timeout := time.After(time.Minute)
	for open := true; open; {
		var event watch.Event
		select {
		case event, open = <-watcher.ResultChan():
		case <-timeout:
			t.Fatal("watch did not end")
		}
		switch event.Type {
		case watch.Deleted:
			t.Fatalf("%s was reported as deleted", event.Object.(*example.Pod).Name)
		case watch.Error:
			if status := event.Object.(*metav1.Status); status.Code != 503 || !strings.Contains(status.Message, "is being deleted") {
				t.Errorf("watch ended with %+v", status)
			}
		}
	}
	if _, err := h.list(t, storage.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("list: got %v, want 503", err)
	}
	if err := h.Get(t.Context(), key("never-was"), storage.GetOptions{}, &example.Pod{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("get: got %v, want 503", err)
	}
	if err := h.Create(t.Context(), key("new"), pod("new"), nil, 0); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("create: got %v, want 503", err)
	}
	if err := h.ReadinessCheck(); err == nil || !strings.Contains(err.Error(), "restore") {
		t.Errorf("readiness: got %v, want what to do", err)
	}
}

func TestConcurrentUpdatesAreAllApplied(t *testing.T) {
	h := newHarness(t)
	h.create(t, "counter")
	const writers, increments = 4, 50
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for range increments {
				err := h.GuaranteedUpdate(t.Context(), key("counter"), &example.Pod{}, false, nil, storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
					counter := object.(*example.Pod)
					count, _ := strconv.Atoi(counter.Annotations["count"])
					counter.Annotations = map[string]string{"count": strconv.Itoa(count + 1)}
					return counter, nil
				}), nil)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	counter := &example.Pod{}
	if err := h.Get(t.Context(), key("counter"), storage.GetOptions{}, counter); err != nil || counter.Annotations["count"] != strconv.Itoa(writers*increments) {
		t.Errorf("counted %s, %v, want %d", counter.Annotations["count"], err, writers*increments)
	}
}

func TestUpdatesWriteOnlyWhatChanged(t *testing.T) {
	h := newHarness(t)
	created := h.create(t, "web")
	update := func(change func(*example.Pod)) *example.Pod {
		t.Helper()
		updated := &example.Pod{}
		err := h.GuaranteedUpdate(t.Context(), key("web"), updated, false, nil, storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
			change(object.(*example.Pod))
			return object, nil
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
		return updated
	}
	if same := update(func(*example.Pod) {}); same.ResourceVersion != created.ResourceVersion {
		t.Errorf("an update without a change made version %s of %s", same.ResourceVersion, created.ResourceVersion)
	}
	changed := update(func(pod *example.Pod) { pod.Labels = map[string]string{"app": "web"} })
	if changed.ResourceVersion == created.ResourceVersion || changed.Labels["app"] != "web" {
		t.Errorf("an update made %+v", changed.ObjectMeta)
	}
}

func TestLimitIsIgnored(t *testing.T) {
	h := newHarness(t)
	for _, name := range []string{"c", "a", "b"} {
		h.create(t, name)
	}
	list, err := h.list(t, storage.ListOptions{Predicate: storage.SelectionPredicate{Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	if got := strings.Join(names, " "); got != "a b c" || list.Continue != "" {
		t.Errorf("got %q, continue %q, want everything in the order of keys", got, list.Continue)
	}
	token, err := storage.EncodeContinue("/pods/shop/a", "/pods/", 1)
	if err != nil {
		t.Fatal(err)
	}
	for continued, expected := range map[string]func(error) bool{token: apierrors.IsResourceExpired, "nonsense": apierrors.IsBadRequest} {
		if _, err := h.list(t, storage.ListOptions{Predicate: storage.SelectionPredicate{Continue: continued}}); !expected(err) {
			t.Errorf("continue token %q: got %v", continued, err)
		}
	}
	if stats, err := h.Stats(t.Context()); err != nil || stats.ObjectCount != 3 {
		t.Errorf("counted %+v, %v", stats, err)
	}
}

func TestSelectorOfNothingListsNothing(t *testing.T) {
	h := newHarness(t)
	h.create(t, "web")
	if _, err := h.client.CoreV1().ConfigMaps(h.namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	list := &example.PodList{}
	err := h.GetList(t.Context(), "/pods", storage.ListOptions{
		Recursive: true, Predicate: storage.SelectionPredicate{Label: labels.Nothing(), Field: fields.Everything(), GetAttrs: podAttributes},
	}, list)
	if err != nil || len(list.Items) != 0 {
		t.Errorf("got %d objects, %v", len(list.Items), err)
	}
}

func TestTooLargeObjectIsRefusedClearly(t *testing.T) {
	h := newHarness(t)
	large := pod("large")
	large.Annotations = map[string]string{"a": strings.Repeat("x", 1<<20)}
	err := h.Create(t.Context(), key("large"), large, nil, 0)
	if !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), key("large")) {
		t.Errorf("create: got %v, want 413 that names the object", err)
	}
	h.create(t, "grows")
	err = h.GuaranteedUpdate(t.Context(), key("grows"), &example.Pod{}, false, nil, storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
		object.(*example.Pod).Annotations = large.Annotations
		return object, nil
	}), nil)
	if !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("update: got %v, want 413", err)
	}
	// The host must accept what is just below the limit.
	fits := pod("fits")
	fits.Annotations = map[string]string{"a": strings.Repeat("x", 1<<20-5<<10)}
	if err := h.Create(t.Context(), key("fits"), fits, nil, 0); err != nil {
		t.Errorf("an object below the limit: %v", err)
	}
}

// An object that cannot be read must not be reported as absent.
func TestCorruptWrapperIsUnknown(t *testing.T) {
	h := newHarness(t)
	h.create(t, "web")
	created := h.create(t, "broken")
	wrappers, err := h.client.CoreV1().ConfigMaps(h.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: configmap.ResourceLabel})
	if err != nil {
		t.Fatal(err)
	}
	var broken string
	for _, wrapper := range wrappers.Items {
		if wrapper.Data["key"] == key("broken") {
			broken = wrapper.Name
			wrapper.Data["object"] = "{"
			if _, err := h.client.CoreV1().ConfigMaps(h.namespace).Update(t.Context(), &wrapper, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := h.list(t, storage.ListOptions{}); !storage.IsInternalError(err) || !strings.Contains(err.Error(), broken) {
		t.Errorf("list: got %v, want an error that names ConfigMap %s", err, broken)
	}
	if err := h.Get(t.Context(), key("broken"), storage.GetOptions{}, &example.Pod{}); !storage.IsInternalError(err) {
		t.Errorf("get: got %v, want an internal error", err)
	}
	if err := h.Get(t.Context(), key("web"), storage.GetOptions{}, &example.Pod{}); err != nil {
		t.Errorf("get of another object: %v", err)
	}
	if _, err := h.Watch(t.Context(), "/pods", storage.ListOptions{Predicate: storage.Everything, Recursive: true}); !storage.IsInternalError(err) {
		t.Errorf("watch: got %v, want an internal error", err)
	}
	watcher, err := h.Watch(t.Context(), "/pods", storage.ListOptions{ResourceVersion: created.ResourceVersion, Predicate: storage.Everything, Recursive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	if event := <-watcher.ResultChan(); event.Type != watch.Error {
		t.Errorf("watch of the change: got %+v, want an error", event)
	}
}
