// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/virtual/encoded"
)

func TestWatcherThatNeverReadsIsTerminated(t *testing.T) {
	r := newSyncedReplica(t)
	at := list(t, r.url+resourcePath).GetResourceVersion()
	url := r.url + resourcePath + query("watch", "true", "resourceVersion", at)
	stuck, reading := watchURL(t, url), watchURL(t, url)

	// Large enough that no buffer between server and client takes them all.
	const changes = 70
	ballast := strings.Repeat("x", 256<<10)
	var slowest time.Duration
	for i := range changes {
		object := serviceImport("a", "x", ipOf(i), nil)
		object.Annotations = map[string]string{"ballast": ballast}
		start := time.Now()
		r.Set(object)
		slowest = max(slowest, time.Since(start))
		if e, ok := reading.next(t); !ok || e.ip != ipOf(i) {
			t.Fatalf("change %d: the other watcher got %v", i, e)
		}
	}
	t.Logf("the slowest write took %s", slowest)

	received := 0
	for {
		if _, ok := stuck.next(t); !ok {
			break
		}
		received++
	}
	if received >= changes {
		t.Errorf("the watcher that never reads received all %d events", received)
	}
}

func TestThousandWatchersReceiveEveryChange(t *testing.T) {
	const watchers, changes, burst = 1000, 100, 10
	r := newSyncedReplica(t)
	var received atomic.Int64
	var wrong atomic.Pointer[string]
	var reading sync.WaitGroup
	for range watchers {
		options := everything()
		options.ResourceVersion = list(t, r.url+resourcePath).GetResourceVersion()
		w, err := r.storage.Watch(t.Context(), prefix, options)
		if err != nil {
			t.Fatal(err)
		}
		reading.Go(func() {
			defer w.Stop()
			for i := range changes {
				event, err := receive(t.Context(), w)
				if err != nil || ipIn(event) != ipOf(i) {
					text := event.Type
					problem := "got " + string(text) + " instead of " + ipOf(i)
					wrong.Store(&problem)
					return
				}
				received.Add(1)
			}
		})
	}
	start := time.Now()
	// In bursts that have room in the buffers: the watch cache cuts off who
	// is slower, and here all of them share two processors.
	for i := range changes {
		r.Set(serviceImport("a", "x", ipOf(i), nil))
		if (i+1)%burst == 0 {
			eventually(t, "all watchers received the burst", func() bool {
				return wrong.Load() != nil || received.Load() == int64(watchers*(i+1))
			})
		}
	}
	t.Logf("%d events in %s", received.Load(), time.Since(start))
	reading.Wait()
	if problem := wrong.Load(); problem != nil {
		t.Error(*problem)
	}
}

func TestBurstIsNeitherLostNorDelayed(t *testing.T) {
	const burst = 10_000
	r := newSyncedReplica(t)
	at := list(t, r.url+resourcePath).GetResourceVersion()
	start := time.Now()
	for i := range burst {
		r.Set(serviceImport("a", nameOf(i%500), ipOf(i), nil))
	}
	t.Logf("%d writes took %s", burst, time.Since(start))

	if got := list(t, r.url+resourcePath); len(got.Items) != 500 {
		t.Fatalf("the list has %d objects, want 500", len(got.Items))
	}
	options := everything()
	options.ResourceVersion = at
	w, err := r.storage.Watch(t.Context(), prefix, options)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for i := range burst {
		event, err := receive(t.Context(), w)
		if err != nil || ipIn(event) != ipOf(i) {
			t.Fatalf("event %d of the history: got %v, %v", i, event, err)
		}
	}
}

// ipIn returns the IP of an object, also if the watch cache wrapped it.
func ipIn(event watch.Event) string {
	if o, ok := encoded.Unwrap(event.Object).(*multicluster.ServiceImport); ok {
		return o.Spec.IPs[0]
	}
	return ""
}
