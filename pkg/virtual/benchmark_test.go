// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

// realistic returns an object of about 1.5 KB.
func realistic(i, revision int) runtime.Object {
	object := serviceImport("a", nameOf(i), ipOf(revision), map[string]string{"app": "shop", "revision": fmt.Sprint(revision)})
	object.Annotations = map[string]string{"description": strings.Repeat("x", 1200)}
	return object
}

func BenchmarkListOf10000(b *testing.B) {
	r := newSyncedReplica(b)
	for i := range 10_000 {
		r.Set(realistic(i, 0))
	}
	for name, path := range map[string]string{"consistent": resourcePath, "any": resourcePath + query("resourceVersion", "0")} {
		b.Run(name+" over HTTP", func(b *testing.B) {
			for b.Loop() {
				get(b, r.url+path)
			}
		})
	}
	b.Run("consistent below HTTP", func(b *testing.B) {
		for b.Loop() {
			if err := r.storage.GetList(b.Context(), prefix, everything(), newList()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkSet(b *testing.B) {
	r := newSyncedReplica(b)
	for i := range 10_000 {
		r.Set(realistic(i, 0))
	}
	b.Run("changed", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			r.Set(realistic(i%10_000, i+1))
		}
	})
	b.Run("equal", func(b *testing.B) {
		r.Set(realistic(0, 0))
		for b.Loop() {
			r.Set(realistic(0, 0))
		}
	})
}

// BenchmarkFanOut measures one change that every watcher receives.
func BenchmarkFanOut(b *testing.B) {
	for _, watchers := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("%d watchers", watchers), func(b *testing.B) {
			r := newSyncedReplica(b)
			options := everything()
			options.ResourceVersion = list(b, r.url+resourcePath).GetResourceVersion()
			var got sync.WaitGroup
			for range watchers {
				w, err := r.storage.Watch(b.Context(), prefix, options)
				if err != nil {
					b.Fatal(err)
				}
				defer w.Stop()
				go func() {
					for range w.ResultChan() {
						got.Done()
					}
				}()
			}
			i := 0
			for b.Loop() {
				i++
				got.Add(watchers)
				r.Set(realistic(0, i))
				got.Wait()
			}
		})
	}
}
