// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// east is the key of what is imported from cluster east.
var east = key{web, "east"}

// imported returns the slice of the import that the cache holds, and the one that the host does.
func (w *world) imported(t *testing.T) (cached, stored *discoveryv1.EndpointSlice) {
	t.Helper()
	found, err := w.client.DiscoveryV1().EndpointSlices(web.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(found.Items) != 1 {
		t.Fatalf("%d slices, want one: %v", len(found.Items), err)
	}
	return w.existingSlices(web)[found.Items[0].Name], &found.Items[0]
}

// arrive lets the cache show what is stored, and handles the event.
func (w *world) arrive(t *testing.T) {
	t.Helper()
	cached, stored := w.imported(t)
	w.hold(t, "slice", stored)
	w.sliceChanged(cached, stored)
}

func (w *world) syncEast(t *testing.T) {
	t.Helper()
	if err := w.sync(t.Context(), east); err != nil {
		t.Fatal(err)
	}
}

// importingEast returns a world in which endpoint 10.1.0.1 of east is imported.
func importingEast(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.hold(t, "import", newImport())
	w.export(t, exportedBy("east", ready("10.1.0.1")))
	w.sync1(t)
	w.settle(t)
	w.queued()
	return w
}

// R652: what mcs-controller itself has written is not reconciled again.
func TestOwnUpdatesAreNotReconciled(t *testing.T) {
	w := importingEast(t)
	w.export(t, exportedBy("east", ready("10.1.0.2")))
	w.syncEast(t)
	w.arrive(t)
	if got := w.queued(); got != "" {
		t.Errorf("enqueued %q after the own update", got)
	}
}

func TestUpdatesOfOthersAreReconciled(t *testing.T) {
	const all = "shop/web,shop/web@east"
	for name, change := range map[string]func(*discoveryv1.EndpointSlice){
		"endpoints": func(slice *discoveryv1.EndpointSlice) { slice.Endpoints = nil },
		"ports":     func(slice *discoveryv1.EndpointSlice) { slice.Ports[0].Port = ptr.To[int32](1) },
		"label":     func(slice *discoveryv1.EndpointSlice) { delete(slice.Labels, discoveryv1.LabelServiceName) },
		"owner":     func(slice *discoveryv1.EndpointSlice) { slice.OwnerReferences = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := importingEast(t)
			for _, updated := range []bool{true, false} { // directly after an own update, and later
				if updated {
					w.export(t, exportedBy("east", ready("10.1.0.2")))
					w.syncEast(t)
				}
				_, stored := w.imported(t)
				changed := stored.DeepCopy()
				change(changed)
				w.sliceChanged(stored, changed)
				if got := w.queued(); got != all {
					t.Errorf("enqueued %q, want %q", got, all)
				}
			}
		})
	}
}

// The event of an update can arrive after its key was reconciled again with a cache that does not
// show it.
func TestUpdateThatTheCacheDidNotShowIsReconciled(t *testing.T) {
	w := importingEast(t)
	w.export(t, exportedBy("east", ready("10.1.0.2")))
	w.syncEast(t)
	w.export(t, exportedBy("east", ready("10.1.0.1")))
	w.written()
	w.syncEast(t)
	if got := w.written(); got != "" {
		t.Fatalf("requests %q although the cache shows what is desired", got)
	}
	w.arrive(t)
	if got := w.queued(); got == "" {
		t.Fatal("nothing was enqueued")
	}
	w.syncEast(t)
	if _, stored := w.imported(t); stored.Endpoints[0].Addresses[0] != "10.1.0.1" {
		t.Errorf("endpoints are %v", stored.Endpoints)
	}
}

// The type of a derived Service waits for the labels of imported EndpointSlices.
func TestOwnUpdatesOfLabelsAreReconciled(t *testing.T) {
	w := importingEast(t)
	cached, stored := w.imported(t)
	without := cached.DeepCopy()
	delete(without.Labels, multicluster.SourceClusterLabel)
	w.hold(t, "slice", without)
	w.syncEast(t)
	w.sliceChanged(without, stored)
	if got := w.queued(); got == "" {
		t.Error("nothing was enqueued")
	}
}

func TestNothingIsExpectedOfImportsThatAreGone(t *testing.T) {
	w := importingEast(t)
	w.export(t, exportedBy("east", ready("10.1.0.2")))
	w.syncEast(t)
	if len(w.echoes.pending) != 1 {
		t.Fatalf("%d keys have pending updates, want one", len(w.echoes.pending))
	}
	if err := w.caches["import"].Delete(newImport()); err != nil {
		t.Fatal(err)
	}
	w.syncEast(t)
	if len(w.echoes.pending) != 0 {
		t.Errorf("%d keys have pending updates", len(w.echoes.pending))
	}
}
