// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// The estimate is within a third of what the objects really take.
func TestFootprintIsWhatObjectsTake(t *testing.T) {
	service := func(i int) any {
		text := func() string { return fmt.Sprintf("%01000d", i) }
		return &clusterset.ExportedService{
			ObjectMeta: metav1.ObjectMeta{Name: text(), CreationTimestamp: metav1.Now()},
			Spec:       clusterset.ExportedServiceSpec{ExportedAnnotations: map[string]string{"a" + text(): text(), "b" + text(): text()}},
		}
	}
	slice := func(i int) any {
		slice := &clusterset.ExportedEndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("slice-", i)}}
		slice.Spec.Endpoints = make([]discoveryv1.Endpoint, 100)
		for n := range slice.Spec.Endpoints {
			slice.Spec.Endpoints[n] = discoveryv1.Endpoint{
				Addresses: []string{fmt.Sprintf("10.0.%d.%d", i%256, n)}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
				Hostname: ptr.To(fmt.Sprint("host-", n)),
			}
		}
		return slice
	}
	for name, create := range map[string]func(int) any{"Services": service, "EndpointSlices": slice} {
		objects := make([]any, 500)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var estimated int64
		for i := range objects {
			objects[i] = create(i)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		for _, object := range objects {
			estimated += Footprint(object)
		}
		taken := int64(after.HeapAlloc) - int64(before.HeapAlloc) //nolint:gosec // much smaller
		if estimated < taken*2/3 || estimated > taken*4/3 {
			t.Errorf("%s take %d bytes, the estimate is %d", name, taken, estimated)
		}
		runtime.KeepAlive(objects)
	}
}

func TestFootprintGrowsWithEveryField(t *testing.T) {
	type all struct {
		Text    string
		Pointer *string
		List    []string
		Map     map[string]string
		Any     any
		private string
	}
	empty, text := Footprint(&all{}), strings.Repeat("x", 100)
	for name, value := range map[string]all{
		"string": {Text: text}, "pointer": {Pointer: &text}, "list": {List: []string{text}}, "capacity": {List: make([]string, 0, 10)},
		"key": {Map: map[string]string{text: ""}}, "value": {Map: map[string]string{"": text}}, "interface": {Any: text}, "private": {private: text},
	} {
		if got := Footprint(&value) - empty; got < 100 {
			t.Errorf("%s: %d bytes", name, got)
		}
	}
	if Footprint((*all)(nil)) != 0 || Footprint(nil) != 0 {
		t.Error("nothing takes memory")
	}
}
