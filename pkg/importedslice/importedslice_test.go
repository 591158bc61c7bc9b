// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importedslice

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// imported returns an imported EndpointSlice of cluster east.
func imported(change func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "derived-1",
			Labels: map[string]string{
				multicluster.ServiceNameLabel: "web", multicluster.SourceClusterLabel: "east", discoveryv1.LabelManagedBy: multicluster.ManagedBy,
			},
			Annotations: map[string]string{multicluster.SourceSliceAnnotation: Source{Name: "web-1.east"}.Annotation()},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.0.1"}}},
	}
	change(slice)
	return slice
}

// Only what mcs-controller wrote for this cluster is restored. The round trip is
// tested beside the code that makes imported EndpointSlices.
func TestOtherSlicesAreNotRestored(t *testing.T) {
	for name, change := range map[string]func(*discoveryv1.EndpointSlice){
		"of another cluster": func(s *discoveryv1.EndpointSlice) { s.Labels[multicluster.SourceClusterLabel] = "west" },
		"of the cluster itself": func(s *discoveryv1.EndpointSlice) {
			s.Labels[discoveryv1.LabelManagedBy] = "endpointslice-controller.k8s.io"
		},
		"without an import":       func(s *discoveryv1.EndpointSlice) { delete(s.Labels, multicluster.ServiceNameLabel) },
		"of an earlier release":   func(s *discoveryv1.EndpointSlice) { s.Annotations = nil },
		"with a wrong annotation": func(s *discoveryv1.EndpointSlice) { s.Annotations[multicluster.SourceSliceAnnotation] = "{" },
	} {
		t.Run(name, func(t *testing.T) {
			got, errs := Restore("east", []*discoveryv1.EndpointSlice{imported(change)})
			if len(got) != 0 {
				t.Errorf("restored %+v", got[0])
			}
			if wrong := strings.Contains(name, "wrong"); wrong != (len(errs) == 1) || wrong && !strings.Contains(errs[0].Error(), "shop/derived-1") {
				t.Errorf("got errors %v", errs)
			}
		})
	}
}

// R486: while slices are replaced by those of another form, endpoints are restored once. Endpoints
// with the same address that differ are kept.
func TestEndpointsOfReplacedSlicesAreRestoredOnce(t *testing.T) {
	replacement := func(s *discoveryv1.EndpointSlice) {
		s.Name = "derived-1-import"
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.1.0.1"}, Conditions: discoveryv1.EndpointConditions{Terminating: ptr.To(true)}})
	}
	got, errs := Restore("east", []*discoveryv1.EndpointSlice{imported(func(*discoveryv1.EndpointSlice) {}), imported(replacement)})
	if len(errs) > 0 || len(got) != 1 || len(got[0].Spec.Endpoints) != 2 {
		t.Errorf("restored %+v, errors %v", got, errs)
	}
}

func TestNodesAndHintsAreNotImported(t *testing.T) {
	want := discoveryv1.Endpoint{
		Addresses: []string{"10.1.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}, Hostname: ptr.To("web-0"), Zone: ptr.To("z1"),
	}
	endpoint := want
	endpoint.NodeName, endpoint.Hints = ptr.To("node"), &discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: "node"}}}
	endpoint.DeprecatedTopology, endpoint.TargetRef = map[string]string{"a": "b"}, nil
	if diff := cmp.Diff(want, Endpoint(endpoint)); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
}
