// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	multiclusterxv1beta1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multiclusterx/v1beta1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/importedslice"
)

// randomly returns a value or nil.
func randomly[T any](random *rand.Rand, value T) *T {
	if random.IntN(2) == 0 {
		return nil
	}
	return &value
}

// randomEndpoints returns up to count endpoints, as they are held of another cluster.
func randomEndpoints(random *rand.Rand, count int) []discoveryv1.Endpoint {
	var endpoints []discoveryv1.Endpoint
	for i := range count {
		if random.IntN(3) == 0 {
			continue
		}
		endpoints = append(endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)},
			Conditions: discoveryv1.EndpointConditions{Ready: randomly(random, random.IntN(2) == 0), Serving: randomly(random, true), Terminating: randomly(random, false)},
			Hostname:   randomly(random, fmt.Sprintf("web-%d", i)), Zone: randomly(random, fmt.Sprintf("zone-%d", i%3)),
		})
	}
	importedslice.Sort(endpoints)
	return endpoints
}

// randomSource returns an exported slice of a cluster.
func randomSource(random *rand.Rand, cluster string, number int) *clustersetv1alpha1.ExportedEndpointSlice {
	name := clusterset.ObjectName(fmt.Sprintf("web-%d", number), cluster)
	source := &clustersetv1alpha1.ExportedEndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: web.Namespace, Name: name, UID: types.UID("uid of " + name), Labels: clusterset.SourceLabels(cluster, web.Name),
			CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, random.IntN(1000), 0, time.UTC)),
		},
		Spec: clustersetv1alpha1.ExportedEndpointSliceSpec{
			Cluster: cluster, Service: web.Name, Path: []string{cluster, "hub"}, AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: randomEndpoints(random, random.IntN(250)),
		},
	}
	for i := range random.IntN(3) {
		source.Spec.Ports = append(source.Spec.Ports, discoveryv1.EndpointPort{
			Name: ptr.To(fmt.Sprintf("port-%d", i)), Protocol: randomly(random, corev1.ProtocolUDP), Port: randomly(random, random.Int32N(1000)+1),
			AppProtocol: randomly(random, "example.com/x"),
		})
	}
	return source
}

// R166: what an imported EndpointSlice was made from can be restored exactly, however the
// endpoints are divided among slices, and whatever the import makes of ports and hints.
func TestSourcesCanBeRestoredFromImportedSlices(t *testing.T) {
	for seed := range *rounds {
		random := rand.New(rand.NewPCG(seed, 0))
		serviceImport := newImport(func(s *multiclusterxv1beta1.ServiceImport) {
			s.Spec.TrafficDistribution = randomly(random, corev1.ServiceTrafficDistributionPreferSameZone)
			if random.IntN(2) == 0 {
				makeHeadless(s)
			}
		})
		owner := defaulted(desiredService(nil, serviceImport, variant{}))
		var existing map[string]*discoveryv1.EndpointSlice
		for range 4 { // endpoints come and go, and stay in their slices
			exporters := []exporter{exportedBy("here", ready("10.0.0.1"))}
			want := map[string][]*clusterset.ExportedEndpointSlice{}
			for _, cluster := range []string{"east", "west"} {
				made := exportedBy(cluster, nil)
				made.slices = nil
				for number := range random.IntN(4) {
					source := randomSource(random, cluster, number)
					made.slices = append(made.slices, source)
					want[cluster] = append(want[cluster], withoutPath(t, source))
				}
				exporters = append(exporters, made)
			}
			existing = slicesOfAll(serviceImport, owner, exporters, existing)
			imported := slices.SortedFunc(maps.Values(existing), func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(b.Name, a.Name) })
			for _, cluster := range []string{"east", "west"} {
				got, errs := importedslice.Restore(cluster, imported)
				if len(errs) > 0 {
					t.Fatal(errs)
				}
				if len(got)+len(want[cluster]) > 0 && !apiequality.Semantic.DeepEqual(want[cluster], got) {
					t.Fatalf("seed %d: want (-), got (+): %s", seed, gocmp.Diff(want[cluster], got))
				}
			}
		}
	}
}

// withoutPath returns the slice as it is restored.
func withoutPath(t *testing.T, source *clustersetv1alpha1.ExportedEndpointSlice) *clusterset.ExportedEndpointSlice {
	t.Helper()
	result := &clusterset.ExportedEndpointSlice{}
	if err := clustersetv1alpha1.Convert_v1alpha1_ExportedEndpointSlice_To_clusterset_ExportedEndpointSlice(source.DeepCopy(), result, nil); err != nil {
		t.Fatal(err)
	}
	result.Spec.Path = nil
	return result
}
