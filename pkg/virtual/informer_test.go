// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"math/rand/v2"
	"net/url"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual"
)

// listerWatcher reads from one server, optionally with streaming lists.
type listerWatcher struct {
	*cache.ListWatch
	streaming bool
}

// IsWatchListSemanticsUnSupported is called by client-go.
func (l listerWatcher) IsWatchListSemanticsUnSupported() bool { return !l.streaming }

func newListerWatcher(t *testing.T, server string, streaming bool) cache.ListerWatcher {
	t.Helper()
	client, err := dynamic.NewForConfig(&restclient.Config{Host: server, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	resource := client.Resource(imports)
	return listerWatcher{streaming: streaming, ListWatch: &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, options)
		},
	}}
}

func TestInformersConverge(t *testing.T) {
	for name, streaming := range map[string]bool{"with streaming lists": true, "with lists": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newSyncedReplica(t)
			for i := range 100 {
				r.Set(serviceImport("a", nameOf(i), ipOf(i), nil))
			}
			informer := cache.NewSharedIndexInformer(newListerWatcher(t, r.url, streaming), &unstructured.Unstructured{}, 0, nil)
			ctx, cancel := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { informer.RunWithContext(ctx) })
			defer running.Wait()
			defer cancel()

			random := rand.New(rand.NewPCG(1, 2))
			for i := range 2000 {
				changeAtRandom(random, r.Store, i)
			}
			eventually(t, "the informer agrees with the store", func() bool {
				return informer.HasSynced() && agree(r.Store, informer.GetStore().List())
			})
			for i := range 500 {
				changeAtRandom(random, r.Store, i)
			}
			eventually(t, "the informer observes later changes", func() bool {
				return agree(r.Store, informer.GetStore().List())
			})
			streamed := r.seen.count(func(q url.Values) bool { return q.Get("sendInitialEvents") == "true" })
			if (streamed > 0) != streaming {
				t.Errorf("the informer streamed %d lists", streamed)
			}
		})
	}
}

// changeAtRandom sets, replaces or deletes one of a hundred objects and returns
// the number of resulting events.
func changeAtRandom(random *rand.Rand, store *virtual.Store, i int) int {
	name := nameOf(random.IntN(100))
	_, held := store.Get("a", name)
	switch random.IntN(10) {
	case 0:
		if store.Delete("a", name) {
			return 1
		}
		return 0
	case 1:
		object := serviceImport("a", name, ipOf(i), nil)
		object.UID = object.UID + "/reborn"
		if current, ok := store.Get("a", name); ok && object.UID == uidOf(current) {
			object.UID += "/again"
		}
		store.Set(object)
		if held {
			return 2
		}
		return 1
	default:
		object := serviceImport("a", name, ipOf(i), nil)
		if current, ok := store.Get("a", name); ok {
			object.UID = uidOf(current)
		}
		if store.Set(object) {
			return 1
		}
		return 0
	}
}
