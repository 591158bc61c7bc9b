// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
)

// A controller that is created again, because its replica leads again, reconciles all
// objects from the caches, and the former one gets no events any more.
func TestHandlersGetAllObjectsInEveryRunWithoutAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		service := func(name string) *corev1.Service {
			return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		}
		client := kubernetesfake.NewClientset(service("a"), service("b"))
		factory := informers.NewSharedInformerFactory(client, 0)
		informer := factory.Core().V1().Services().Informer()
		factory.StartWithContext(ctx)
		for term := range 3 {
			leading, lose := context.WithCancel(ctx)
			var mu sync.Mutex
			var reconciled []string
			queue := NewQueue("test")
			handlers := Handlers{informer: OnChange(func(object metav1.Object) {
				queue.Add(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
			})}
			ended := make(chan error)
			go func() {
				ended <- handlers.Run(leading, queue, 1, func(_ context.Context, key types.NamespacedName) error {
					mu.Lock()
					defer mu.Unlock()
					reconciled = append(reconciled, key.Name)
					return nil
				})
			}()
			time.Sleep(time.Second) // in the bubble
			lose()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			slices.Sort(reconciled)
			if !slices.Equal(reconciled, []string{"a", "b"}) {
				t.Errorf("term %d reconciled %v, want a and b", term, reconciled)
			}
			if _, err := client.CoreV1().Services("shop").Update(ctx, service("a"), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if len(reconciled) != 2 {
				t.Errorf("term %d reconciled %v, also after its end", term, reconciled)
			}
		}
		lists := 0
		for _, action := range client.Actions() {
			if action.GetVerb() == "list" {
				lists++
			}
		}
		if lists != 1 {
			t.Errorf("%d lists, want 1", lists)
		}
		stop()
		factory.Shutdown()
	})
}

func TestIndexersAreAddedOnce(t *testing.T) {
	informer := informers.NewSharedInformerFactory(kubernetesfake.NewClientset(), 0).Core().V1().Services().Informer()
	byName := func(object any) ([]string, error) { return []string{object.(*corev1.Service).Name}, nil }
	for range 2 {
		if err := EnsureIndexers(informer, cache.Indexers{"first": byName}); err != nil {
			t.Fatal(err)
		}
	}
	if err := EnsureIndexers(informer, cache.Indexers{"first": byName, "second": byName}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "second"} {
		if informer.GetIndexer().GetIndexers()[name] == nil {
			t.Errorf("informer has no index %q", name)
		}
	}
}
