// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
)

// R77, R78: the fields that draining, DNS and routing need are copied; the node name only
// for endpoints of this cluster.
func TestFieldsOfEndpointsAreCopied(t *testing.T) {
	source := discoveryv1.Endpoint{
		Addresses:  []string{"10.1.0.1"},
		Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)},
		Hostname:   ptr.To("web-0"), Zone: ptr.To("z1"), NodeName: ptr.To("node-1"),
		// R76: the hints of the exporting cluster are ignored.
		Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z9"}}, ForNodes: []discoveryv1.ForNode{{Name: "node-9"}}},
	}
	for cluster, node := range map[string]*string{"here": ptr.To("node-1"), "east": nil} {
		want := source
		want.NodeName, want.Hints = node, nil
		slice := only(t, slicesOf(newImport(), exportedBy(cluster, []discoveryv1.Endpoint{source})))
		if diff := cmp.Diff([]discoveryv1.Endpoint{want}, slice.Endpoints); diff != "" {
			t.Errorf("%s: want (-), got (+): %s", cluster, diff)
		}
	}
}

// R76: hints follow the traffic distribution of the import. kube-proxy ignores nodes if an endpoint
// is hinted for none, so that those of other clusters are hinted for one that does not exist.
func TestHintsFollowTheImport(t *testing.T) {
	zone := []discoveryv1.ForZone{{Name: "z1"}}
	node, nowhere := []discoveryv1.ForNode{{Name: "node-1"}}, []discoveryv1.ForNode{{Name: "none.clusterset.mcs-apiserver.io"}}
	for _, test := range []struct {
		name         string
		distribution *string
		cluster      string
		zone         *string
		want         *discoveryv1.EndpointHints
	}{
		{"none", nil, "east", ptr.To("z1"), nil},
		{"unknown", ptr.To("PreferSameMoon"), "east", ptr.To("z1"), nil},
		{"close", ptr.To(corev1.ServiceTrafficDistributionPreferClose), "east", ptr.To("z1"), &discoveryv1.EndpointHints{ForZones: zone}},
		{"same zone", ptr.To(corev1.ServiceTrafficDistributionPreferSameZone), "here", ptr.To("z1"), &discoveryv1.EndpointHints{ForZones: zone}},
		{"same zone, zone unknown", ptr.To(corev1.ServiceTrafficDistributionPreferSameZone), "here", nil, nil},
		{"same node here", ptr.To(corev1.ServiceTrafficDistributionPreferSameNode), "here", ptr.To("z1"), &discoveryv1.EndpointHints{ForZones: zone, ForNodes: node}},
		{"same node elsewhere", ptr.To(corev1.ServiceTrafficDistributionPreferSameNode), "east", ptr.To("z1"), &discoveryv1.EndpointHints{ForZones: zone, ForNodes: nowhere}},
		{"same node elsewhere, zone unknown", ptr.To(corev1.ServiceTrafficDistributionPreferSameNode), "east", nil, &discoveryv1.EndpointHints{ForNodes: nowhere}},
	} {
		t.Run(test.name, func(t *testing.T) {
			endpoints := ready("10.1.0.1")
			endpoints[0].Zone, endpoints[0].NodeName = test.zone, ptr.To("node-1")
			slice := only(t, slicesOf(newImport(func(s *multiclusterxv1beta1.ServiceImport) { s.Spec.TrafficDistribution = test.distribution }), exportedBy(test.cluster, endpoints)))
			if diff := cmp.Diff(test.want, slice.Endpoints[0].Hints); diff != "" {
				t.Errorf("want (-), got (+): %s", diff)
			}
		})
	}
}

// Addresses that are local to a node cannot be those of another cluster.
func TestUnreachableAddressesAreDropped(t *testing.T) {
	mixed := []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1", "10.1.0.1"}}, {Addresses: []string{"169.254.169.254"}}}
	for cluster, want := range map[string]string{"east": "[[10.1.0.1]]", "here": "[[127.0.0.1 10.1.0.1] [169.254.169.254]]"} {
		var found [][]string
		for _, endpoint := range only(t, slicesOf(newImport(), exportedBy(cluster, mixed))).Endpoints {
			found = append(found, endpoint.Addresses)
		}
		if fmt.Sprint(found) != want {
			t.Errorf("%s: got %v, want %s", cluster, found, want)
		}
	}
	if mixed[0].Addresses[0] != "127.0.0.1" {
		t.Error("the cached object was changed")
	}
}

// Another order of the endpoints at the source does not cause a write.
func TestOrderOfTheSourceDoesNotMatter(t *testing.T) {
	one := slicesOf(newImport(), exportedBy("east", ready("10.1.0.1", "10.1.0.2", "10.1.0.3")))
	other := slicesOf(newImport(), exportedBy("east", ready("10.1.0.3", "10.1.0.1", "10.1.0.2")))
	if diff := cmp.Diff(one, other); diff != "" {
		t.Errorf("they differ: %s", diff)
	}
}

func TestEndpointsAreSplitAmongSlices(t *testing.T) {
	for count, want := range map[int]int{0: 1, 1: 1, 100: 1, 101: 2, 200: 2, 201: 3, 250: 3} {
		if got := len(slicesOf(newImport(), exportedBy("east", ready(addresses(count)...)))); got != want {
			t.Errorf("got %[2]d slices for %[1]d endpoints, want %[3]d", count, got, want)
		}
	}
}

func addresses(count int) []string {
	var result []string
	for i := range count {
		result = append(result, fmt.Sprintf("10.1.%d.%d", i/200, i%200+1))
	}
	return result
}

// Whatever endpoints are added and removed, a remaining endpoint stays in its slice, and
// slices without changes stay as they are.
func TestEndpointsStayInTheirSlices(t *testing.T) {
	known := addresses(500)
	for seed := range *rounds {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // reproducible
		all, others := known[:350], exportedBy("west", ready(known[350:]...))
		var alive []string
		existing := map[string]*discoveryv1.EndpointSlice{}
		for step := range 30 {
			before := homes(t, existing)
			deleted := map[string]bool{}
			if random.IntN(5) == 0 && len(existing) > 0 { // a user deletes a slice
				name := slices.Sorted(maps.Keys(existing))[random.IntN(len(existing))]
				deleted[name] = true
				delete(existing, name)
			}
			alive = churn(random, all, alive)
			serviceImport := newImport()
			service := defaulted(desiredService(nil, serviceImport, variant{}))
			sources := []exporter{exportedBy("east", ready(alive...)), others}
			desired := slicesOfAll(serviceImport, service, sources, existing)
			after := homes(t, desired)
			if len(after) != len(alive)+150 {
				t.Fatalf("seed %d, step %d: got %d endpoints, want %d and 150", seed, step, len(after), len(alive))
			}
			touched := map[string]bool{}
			for _, address := range known {
				was, now := before[address], after[address]
				if was != "" && now != "" && was != now && !deleted[was] {
					t.Fatalf("seed %d, step %d: %s moved from %s to %s", seed, step, address, was, now)
				}
				if was != now || deleted[was] {
					touched[was], touched[now] = true, true
				}
			}
			for name, slice := range desired {
				if old := existing[name]; old != nil && !touched[name] && !reflect.DeepEqual(old, slice) {
					t.Fatalf("seed %d, step %d: %s changed without reason: %s", seed, step, name, cmp.Diff(old, slice))
				}
			}
			if again := slicesOfAll(serviceImport, service, sources, desired); !reflect.DeepEqual(desired, again) {
				t.Fatalf("seed %d, step %d: a second sync would write again: %s", seed, step, cmp.Diff(desired, again))
			}
			existing = desired
		}
	}
}

// churn adds and removes some, or nearly all, addresses in random order.
func churn(random *rand.Rand, all, alive []string) []string {
	keep, add := 1-random.Float64()*random.Float64(), random.Float64()*random.Float64()
	held := map[string]bool{}
	for _, address := range alive {
		held[address] = true
	}
	var result []string
	for _, address := range all {
		if held[address] && random.Float64() < keep || !held[address] && random.Float64() < add {
			result = append(result, address)
		}
	}
	random.Shuffle(len(result), func(i, j int) { result[i], result[j] = result[j], result[i] })
	return result
}

// homes returns the slice of each endpoint.
func homes(t *testing.T, in map[string]*discoveryv1.EndpointSlice) map[string]string {
	t.Helper()
	result := map[string]string{}
	for name, slice := range in {
		if len(slice.Endpoints) > maxEndpoints {
			t.Fatalf("%s has %d endpoints", name, len(slice.Endpoints))
		}
		for _, endpoint := range slice.Endpoints {
			if other := result[endpoint.Addresses[0]]; other != "" {
				t.Fatalf("%s is in %s and %s", endpoint.Addresses[0], other, name)
			}
			result[endpoint.Addresses[0]] = name
		}
	}
	return result
}
