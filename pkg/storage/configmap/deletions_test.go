// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/kubernetes/scheme"
)

// watchedHost is a host with at most one wrapper, whose deletion it reports to a watch of all
// wrappers. It counts watches of single wrappers.
type watchedHost struct {
	oneWrapper
	events  *io.PipeWriter
	watches int
	// hidden is set if deletions are not reported.
	hidden bool
}

func (h *watchedHost) respond(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	switch {
	case query.Has("watch") && !query.Has("fieldSelector"):
		body, events := io.Pipe()
		h.events = events
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Request: request, Body: body}, nil
	case query.Has("watch"):
		h.watches++
	case request.Method == http.MethodDelete && h.wrapper != nil:
		deleted := h.wrapper
		response, err := h.oneWrapper.respond(request)
		if h.wrapper == nil && !h.hidden {
			h.reportDeletion(deleted)
		}
		return response, err
	}
	return h.oneWrapper.respond(request)
}

// reportDeletion sends an event with the newest version.
func (h *watchedHost) reportDeletion(deleted *corev1.ConfigMap) {
	deleted = deleted.DeepCopy()
	deleted.ResourceVersion = strconv.Itoa(h.version)
	h.report(metav1.WatchEvent{Type: "DELETED", Object: runtime.RawExtension{Object: deleted}})
}

// reportModification sends an event of the wrapper as it is.
func (h *watchedHost) reportModification() {
	h.report(metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Object: h.wrapper}})
}

func (h *watchedHost) report(event metav1.WatchEvent) {
	data, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	if _, err := h.events.Write(data); err != nil {
		panic(err)
	}
}

// watched is the storage of a replica that watches everything.
type watched struct {
	*store
	host   *watchedHost
	events watch.Interface
	// confirmations is how often the storage namespace was read.
	confirmations atomic.Int32
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	w := &watched{host: &watchedHost{oneWrapper: oneWrapper{version: hostVersion}}}
	w.store = newTestStore(w.host.respond).(*store)
	w.converter.Codec = scheme.Codecs.LegacyCodec(corev1.SchemeGroupVersion)
	w.converter.Attributes = func(runtime.Object) (labels.Set, fields.Set, error) { return nil, nil, nil }
	w.Guard = NewNamespaceGuard("mcs-storage", func(context.Context, string) (*corev1.Namespace, error) {
		w.confirmations.Add(1)
		return storageNamespace("one", false), nil
	})
	w.Guard.Open("one", namespaceVersion)
	create(t, w.store)
	var err error
	w.events, err = w.Watch(t.Context(), "/configmaps", storage.ListOptions{ResourceVersion: w.host.wrapper.ResourceVersion, Recursive: true, Predicate: storage.Everything})
	if err != nil {
		t.Fatal(err)
	}
	for _, followed := w.deletions.begin("none"); !followed; _, followed = w.deletions.begin("none") { // until it has begun
		time.Sleep(time.Millisecond)
	}
	return w
}

// stop ends the watch.
func (w *watched) stop() {
	w.events.Stop()
	w.host.events.Close()
	for range w.events.ResultChan() {
	}
}

func (w *watched) delete(t *testing.T) (version string) {
	t.Helper()
	deleted := &corev1.ConfigMap{}
	if err := w.Delete(t.Context(), webKey, deleted, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	return deleted.ResourceVersion
}

// R659: the deletion of a replica that watches everything needs no other request, and no
// confirmation.
func TestWatchedDeletionNeedsOneRequest(t *testing.T) {
	w := newWatched(t)
	defer w.stop()
	w.host.requests = nil
	version := w.delete(t)
	w.host.expectRequests(t, http.MethodDelete)
	event := <-w.events.ResultChan()
	if reported := event.Object.(*corev1.ConfigMap).ResourceVersion; event.Type != watch.Deleted || reported != version || version != strconv.Itoa(w.host.version) {
		t.Errorf("deleted at version %s, and %s at version %s", version, event.Type, reported)
	}
	if w.host.watches > 0 || w.confirmations.Load() > 0 {
		t.Errorf("%d watches and %d confirmations", w.host.watches, w.confirmations.Load())
	}
}

// R143: what somebody else deletes is confirmed, also if this replica has tried to.
func TestDeletionByOthersIsConfirmed(t *testing.T) {
	for name, tried := range map[string]bool{"others alone": false, "this replica failed": true} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t)
			defer w.stop()
			if tried {
				w.host.wrapper.ResourceVersion = "changed" // neither the held version nor the read one is deleted
				refused := w.Delete(t.Context(), webKey, &corev1.ConfigMap{}, nil, func(context.Context, runtime.Object) error {
					w.host.wrapper.ResourceVersion += "again"
					if len(w.host.wrapper.ResourceVersion) > 20 {
						return context.Canceled
					}
					return nil
				}, nil, storage.DeleteOptions{})
				if refused == nil {
					t.Fatal("deleted")
				}
			}
			w.host.version++
			w.host.reportDeletion(w.host.wrapper)
			<-w.events.ResultChan()
			if got := w.confirmations.Load(); got != 1 {
				t.Errorf("%d confirmations, want one", got)
			}
		})
	}
}

// If the watch ends before it has reported the deletion, nobody waits for it any longer.
func TestDeletionDoesNotWaitForAWatchThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		w.host.hidden = true
		begun := time.Now()
		go func() {
			time.Sleep(10 * time.Millisecond)
			w.stop()
		}()
		if version := w.delete(t); version != strconv.Itoa(hostVersion+1) {
			t.Errorf("version %s, want that of the object", version)
		}
		if took := time.Since(begun); took > 20*time.Millisecond {
			t.Errorf("waited for %s", took)
		}
		create(t, w.store)
		if version := w.delete(t); w.host.watches != 1 || version != strconv.Itoa(w.host.version) {
			t.Errorf("deleted at version %s with %d watches", version, w.host.watches)
		}
	})
}

// A watch that hangs delays a deletion by seconds at most.
func TestDeletionDoesNotWaitForAWatchThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		defer w.stop()
		w.host.hidden = true
		begun := time.Now()
		w.delete(t)
		if took := time.Since(begun); took != deletionTimeout {
			t.Errorf("waited for %s", took)
		}
	})
}

// Of several requests that delete an object, each learns the version, whichever succeeds.
func TestConcurrentDeletionsOfOneObject(t *testing.T) {
	for name, test := range map[string]struct {
		// first is whether the first request succeeds, and early whether the event comes before
		// the other one fails.
		first, early bool
	}{
		"first, early event": {true, true}, "first, late event": {true, false}, "second, early event": {false, true}, "second, late event": {false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newDeletions()
			d.follow()
			one, _ := d.begin("uid")
			two, _ := d.begin("uid")
			succeeding, failing := two, one
			if test.first {
				succeeding, failing = one, two
			}
			d.end(succeeding, true)
			if test.early {
				d.report("uid", "7")
			}
			d.end(failing, false)
			d.report("uid", "7")
			if version, err := succeeding.await(t.Context()); version != "7" || err != nil {
				t.Errorf("%s: version %q, %v", name, version, err)
			}
			if !d.own(t.Context(), "uid") {
				t.Errorf("%s: not a deletion of this replica", name)
			}
		})
	}
}

// R143: an event that is faster than the response waits for that: if the request fails, somebody
// else has deleted the object.
func TestEventWaitsForTheResponse(t *testing.T) {
	for _, succeeds := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			d := newDeletions()
			request, _ := d.begin("uid")
			go func() {
				time.Sleep(time.Second)
				d.end(request, succeeds)
			}()
			begun := time.Now()
			if own := d.own(t.Context(), "uid"); own != succeeds || time.Since(begun) != time.Second {
				t.Errorf("own: %t after %s, want %t after a second", own, time.Since(begun), succeeds)
			}
			hanging, _ := d.begin("other")
			defer d.end(hanging, true)
			if begun = time.Now(); d.own(t.Context(), "other") || time.Since(begun) != deletionTimeout {
				t.Errorf("waited for %s for a response that does not come", time.Since(begun))
			}
		})
	}
}

// A deletion does not rely on a watch whose client has stopped reading.
func TestDeletionDoesNotRelyOnASlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatched(t)
		defer w.stop()
		for range watchBuffer + 1 {
			w.host.reportModification()
		}
		synctest.Wait()
		if version := w.delete(t); w.host.watches != 1 || version != strconv.Itoa(w.host.version) {
			t.Errorf("deleted at version %s with %d watches, want version %d with a watch of its own", version, w.host.watches, w.host.version)
		}
	})
}

func TestDeletionsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDeletions()
		for i := range 1000 {
			begun, _ := d.begin(types.UID(strconv.Itoa(i)))
			d.end(begun, true)
			time.Sleep(deletionMemory / 100)
		}
		if len(d.byUID) > 110 || len(d.succeeded) > 110 || !d.own(t.Context(), "999") || d.own(t.Context(), "1") {
			t.Errorf("%d deletions are remembered", len(d.byUID))
		}
		time.Sleep(2 * deletionMemory) // the host may have been restored from a backup
		if d.own(t.Context(), "999") {
			t.Error("a deletion is remembered for too long")
		}
	})
}
