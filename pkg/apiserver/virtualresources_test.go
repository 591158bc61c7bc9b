// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// R523: endpoints of which only the time of their change differs are not served anew.
func TestTimeOfAChangeAloneIsNoChange(t *testing.T) {
	store := newStores(virtualResources(nil))[clusterset.Resource("exportedendpointslices")]
	slice := func(seconds int64, service string) *clusterset.ExportedEndpointSlice {
		return &clusterset.ExportedEndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-1.b"},
			Spec:       clusterset.ExportedEndpointSliceSpec{Service: service, ChangedAt: ptr.To(metav1.NewMicroTime(time.Unix(seconds, 0)))},
		}
	}
	if !store.Set(slice(1, "web")) || store.Set(slice(2, "web")) || !store.Set(slice(3, "api")) {
		t.Error("an object that changed is not served, or one that did not change is served anew")
	}
}
