// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// R610: what a worker has written is known to the others before the cache shows it: which
// EndpointSlices kube-proxy uses, above all. Later versions and deletions of others count.
func TestUpdatedSliceIsKnownBeforeTheCacheShowsIt(t *testing.T) {
	w := importingEast(t)
	cached, _ := w.imported(t)
	hold := func(version, address string) {
		held := cached.DeepCopy()
		held.ResourceVersion, held.Endpoints[0].Addresses = version, []string{address}
		w.hold(t, "slice", held)
	}
	expect := func(when, version, address string) {
		t.Helper()
		got := w.existingSlices(web)[cached.Name]
		if got == nil || got.ResourceVersion != version || got.Endpoints[0].Addresses[0] != address {
			t.Errorf("%s: got %+v, want version %s with %s", when, got, version, address)
		}
	}
	w.client.PrependReactor("update", "endpointslices", func(action clienttesting.Action) (bool, runtime.Object, error) {
		updated := action.(clienttesting.UpdateAction).GetObject().(*discoveryv1.EndpointSlice).DeepCopy()
		updated.ResourceVersion = "6"
		return true, updated, nil
	})
	hold("5", "10.1.0.1")
	w.export(t, exportedBy("east", ready("10.1.0.2")))
	w.syncEast(t)
	expect("after the update", "6", "10.1.0.2")
	hold("7", "10.1.0.3")
	expect("after that of somebody else", "7", "10.1.0.3")
	w.export(t, exportedBy("east", ready("10.1.0.4")))
	hold("5", "10.1.0.1")
	w.syncEast(t)
	if err := w.slices.Delete(cached); err != nil {
		t.Fatal(err)
	}
	if got := w.existingSlices(web); len(got) > 0 {
		t.Errorf("after the deletion: got %+v", got)
	}
}
