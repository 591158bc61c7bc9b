// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/configmap"
	"github.com/mcs-apiserver/mcs-apiserver/test/framework/expect"
)

// R149: a replica whose kube-apiserver lags behind another one returns errors, and never
// what was overwritten or an absence that has ended. Its watches continue.
func TestLaggingHostDoesNotGoBack(t *testing.T) {
	t.Parallel()
	link := hangingLink(t, "127.0.0.1:12392", plane.EtcdURL())
	second, kill, err := plane.AddAPIServer(t.Context(), "6444", "http://"+link.Address())
	expect.NoError(t, err)
	t.Cleanup(kill) // without the link, it would not stop
	h := newHarness(t)
	lagging := openHarness(t, second, h.namespace)
	before := h.create(t, "deleted")
	watcher := expect.Must(lagging.Watch(t.Context(), "/pods", storage.ListOptions{ResourceVersion: before.ResourceVersion, Predicate: storage.Everything, Recursive: true}))(t)
	defer watcher.Stop()

	expect.NoError(t, link.Hang())
	expect.NoError(t, h.Delete(t.Context(), key("deleted"), &example.Pod{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}))
	created := h.create(t, "created")
	stale := expect.Must(lagging.client.CoreV1().ConfigMaps(h.namespace).List(t.Context(), metav1.ListOptions{ResourceVersion: "0", LabelSelector: configmap.ResourceLabel}))(t)
	if len(stale.Items) != 1 || stale.Items[0].Data["key"] != key("deleted") {
		t.Fatalf("the kube-apiserver does not lag: %+v", stale.Items)
	}
	var requests sync.WaitGroup
	for _, version := range []string{"", "0", created.ResourceVersion} {
		requests.Go(func() {
			if list, err := lagging.list(t, storage.ListOptions{ResourceVersion: version}); err == nil {
				t.Errorf("list at %q: got %+v, want an error", version, list)
			}
		})
		for _, name := range []string{"deleted", "created"} {
			requests.Go(func() {
				err := lagging.Get(t.Context(), key(name), storage.GetOptions{ResourceVersion: version}, &example.Pod{})
				if err == nil || storage.IsNotFound(err) {
					t.Errorf("get %s at %q: got %v, want an error", name, version, err)
				}
			})
		}
	}
	requests.Wait()

	expect.NoError(t, link.Restore())
	expect.Eventually(t, "a list", func(context.Context) error {
		list, err := lagging.list(t, storage.ListOptions{})
		if err == nil && (len(list.Items) != 1 || list.Items[0].Name != "created") {
			t.Fatalf("got %+v", list.Items)
		}
		return err
	})
	for _, want := range []string{"DELETED deleted", "ADDED created"} {
		event := <-watcher.ResultChan()
		pod, ok := event.Object.(*example.Pod)
		if !ok || fmt.Sprint(event.Type, " ", pod.Name) != want {
			t.Fatalf("got %+v, want %s", event, want)
		}
	}
}

// After the host was restored from a backup, its versions are lower than those that
// clients know. It would send them no events until it has reached the version again.
func TestVersionThatTheHostHasNotReachedIsRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	version := expect.Must(strconv.Atoi(h.create(t, "web").ResourceVersion))(t)
	unknown := strconv.Itoa(version + 1_000_000)
	_, err := h.Watch(t.Context(), "/pods", storage.ListOptions{ResourceVersion: unknown, Predicate: storage.Everything, Recursive: true})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("watch: got %v, want 410", err)
	}
	_, err = h.list(t, storage.ListOptions{ResourceVersion: unknown})
	if !storage.IsTooLargeResourceVersion(err) {
		t.Errorf("list: got %v, want 504 because the version is too large", err)
	}
}
