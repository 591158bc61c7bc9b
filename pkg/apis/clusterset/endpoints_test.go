// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
)

// changes set each field of an endpoint to one of a few values, among them absent and empty ones.
var changes = map[string][]func(*discoveryv1.Endpoint){
	"Addresses": {
		func(e *discoveryv1.Endpoint) { e.Addresses = nil }, func(e *discoveryv1.Endpoint) { e.Addresses = []string{} },
		func(e *discoveryv1.Endpoint) { e.Addresses = []string{"10.0.0.1"} },
		func(e *discoveryv1.Endpoint) { e.Addresses = []string{"10.0.0.1", "10.0.0.2"} },
	},
	"Conditions": {
		func(e *discoveryv1.Endpoint) { e.Conditions.Ready = nil }, func(e *discoveryv1.Endpoint) { e.Conditions.Ready = ptr.To(true) },
		func(e *discoveryv1.Endpoint) { e.Conditions.Serving = nil }, func(e *discoveryv1.Endpoint) { e.Conditions.Serving = ptr.To(false) },
		func(e *discoveryv1.Endpoint) { e.Conditions.Terminating = nil }, func(e *discoveryv1.Endpoint) { e.Conditions.Terminating = ptr.To(true) },
	},
	"Hostname": {func(e *discoveryv1.Endpoint) { e.Hostname = nil }, func(e *discoveryv1.Endpoint) { e.Hostname = ptr.To("") }, func(e *discoveryv1.Endpoint) { e.Hostname = ptr.To("a") }},
	"NodeName": {func(e *discoveryv1.Endpoint) { e.NodeName = nil }, func(e *discoveryv1.Endpoint) { e.NodeName = ptr.To("node") }},
	"Zone":     {func(e *discoveryv1.Endpoint) { e.Zone = nil }, func(e *discoveryv1.Endpoint) { e.Zone = ptr.To("zone") }},
	"TargetRef": {
		func(e *discoveryv1.Endpoint) { e.TargetRef = nil }, func(e *discoveryv1.Endpoint) { e.TargetRef = &corev1.ObjectReference{} },
		func(e *discoveryv1.Endpoint) { e.TargetRef = &corev1.ObjectReference{Kind: "Pod"} },
	},
	"DeprecatedTopology": {
		func(e *discoveryv1.Endpoint) { e.DeprecatedTopology = nil }, func(e *discoveryv1.Endpoint) { e.DeprecatedTopology = map[string]string{} },
		func(e *discoveryv1.Endpoint) { e.DeprecatedTopology = map[string]string{"a": "b"} },
	},
	"Hints": {
		func(e *discoveryv1.Endpoint) { e.Hints = nil }, func(e *discoveryv1.Endpoint) { e.Hints = &discoveryv1.EndpointHints{} },
		func(e *discoveryv1.Endpoint) {
			e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{}, ForNodes: []discoveryv1.ForNode{{Name: "node"}}}
		},
		func(e *discoveryv1.Endpoint) {
			e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "zone"}}}
		},
	},
}

// A field of a later version of the API must not be forgotten.
func TestAllFieldsOfEndpointsAreCompared(t *testing.T) {
	endpoint := reflect.TypeFor[discoveryv1.Endpoint]()
	for i := range endpoint.NumField() {
		if name := endpoint.Field(i).Name; changes[name] == nil {
			t.Errorf("field %s is not compared", name)
		}
	}
	for of, want := range map[reflect.Type]int{reflect.TypeFor[discoveryv1.EndpointConditions](): 3, reflect.TypeFor[discoveryv1.EndpointHints](): 2} {
		if got := of.NumField(); got != want {
			t.Errorf("%s has %d fields, %d are compared", of, got, want)
		}
	}
}

func TestSameEndpointsAreSemanticallyEqual(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	change := func(endpoints []discoveryv1.Endpoint) {
		of := changes[reflect.TypeFor[discoveryv1.Endpoint]().Field(random.IntN(len(changes))).Name]
		of[random.IntN(len(of))](&endpoints[random.IntN(len(endpoints))])
	}
	same := 0
	for range 20_000 {
		a, b := make([]discoveryv1.Endpoint, 2), make([]discoveryv1.Endpoint, 2)
		for range random.IntN(5) {
			change(a)
		}
		for i := range a {
			b[i] = *a[i].DeepCopy()
		}
		for range random.IntN(3) {
			change(b)
		}
		want := apiequality.Semantic.DeepEqual(a, b)
		if got := SameEndpoints(a, b); got != want {
			t.Fatalf("got %t, want %t:\n%+v\n%+v", got, want, a, b)
		}
		if want {
			same++
		}
	}
	if same < 2_000 || same > 18_000 {
		t.Errorf("%d of 20000 were equal", same)
	}
	one := make([]discoveryv1.Endpoint, 2)
	if SameEndpoints(one, one[:1]) || !SameEndpoints(one, one) || !SameEndpoints(nil, []discoveryv1.Endpoint{}) {
		t.Error("slices of different lengths are equal, or the same are not")
	}
}

func BenchmarkSameEndpoints(b *testing.B) {
	endpoints := func() []discoveryv1.Endpoint {
		var result []discoveryv1.Endpoint
		for i := range 100 {
			result = append(result, discoveryv1.Endpoint{
				Addresses: []string{fmt.Sprintf("10.0.0.%d", i)}, Zone: ptr.To("zone-a"),
				Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
			})
		}
		return result
	}
	held, updated := endpoints(), endpoints()
	for name, same := range map[string]func(a, b []discoveryv1.Endpoint) bool{
		"by field": SameEndpoints, "by reflection": func(a, b []discoveryv1.Endpoint) bool { return apiequality.Semantic.DeepEqual(a, b) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !same(held, updated) {
					b.Fatal("not the same")
				}
			}
		})
	}
}
