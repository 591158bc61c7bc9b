// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exported_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/clustertest"
	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/exported"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

func TestEndpointsAreCountedByClusterPortAndFamily(t *testing.T) {
	slices := []clustersetv1alpha1.ExportedEndpointSlice{
		*clustertest.NewSlice("west", discoveryv1.AddressTypeIPv4, "10.2.0.1", "!10.2.0.2"), // the second one is not ready
		*clustertest.NewSlice("west", discoveryv1.AddressTypeIPv6, "fd00::1"),
		*clustertest.NewSlice("north", discoveryv1.AddressTypeIPv4, "10.3.0.1"),
	}
	export := &clustertest.NewExported("west", time.Hour).Spec
	for _, test := range []struct {
		name         string
		port         int32
		family       corev1.IPFamily
		ready, total int
	}{
		{"any port", 0, "", 2, 3},
		{"IPv4", 0, corev1.IPv4Protocol, 1, 2},
		{"port", 80, "", 2, 3},
		{"port that is not exported", 81, "", 0, 0},
	} {
		if ready, total := exported.CountEndpoints(slices, export, corev1.ProtocolTCP, test.port, test.family); ready != test.ready || total != test.total {
			t.Errorf("%s: %d of %d endpoints are ready, want %d of %d", test.name, ready, total, test.ready, test.total)
		}
	}
}

func TestPortText(t *testing.T) {
	if got := exported.PortText("http", 80, ""); got != "http:80/TCP" {
		t.Errorf("got %q", got)
	}
	if got := exported.PortText("", 53, corev1.ProtocolUDP); got != "53/UDP" {
		t.Errorf("got %q", got)
	}
}
