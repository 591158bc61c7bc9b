// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

func withAllowed(text string) func(*corev1.Secret) {
	return func(secret *corev1.Secret) { secret.Data[clusterset.MemberSecretAllowedCIDRs] = []byte(text) }
}

// Addresses that no Pod of another cluster can have are left out and reported,
// and so are those outside of the networks that the Secret allows.
func TestAddressesThatCannotBePodsAreLeftOut(t *testing.T) {
	for _, test := range []struct {
		name, allowed   string
		given, want     []string
		dropped, family string
	}{
		{name: "all are good", given: []string{"10.0.0.1", "192.168.1.1"}, want: []string{"10.0.0.1", "192.168.1.1"}},
		{name: "this node itself", given: []string{"127.0.0.1", "10.0.0.1", "0.0.0.0"}, want: []string{"10.0.0.1"}, dropped: "2 endpoints are left out"},
		{name: "metadata services", given: []string{"169.254.169.254"}, dropped: "the first: 169.254.169.254"},
		{name: "multicast", given: []string{"224.0.0.1"}, dropped: "1 endpoints"},
		{name: "IPv6", family: "IPv6", given: []string{"::1", "fe80::1", "ff02::1", "fd00::1"}, want: []string{"fd00::1"}, dropped: "3 endpoints"},
		{name: "not where its Pods are", allowed: "10.1.0.0/16, fd00:1::/64", given: []string{"10.1.2.3", "10.2.0.1"}, want: []string{"10.1.2.3"}, dropped: "allowed-cidrs"},
		{name: "where its Pods are", allowed: "10.1.0.0/16,fd00:1::/64", family: "IPv6", given: []string{"fd00:1::5"}, want: []string{"fd00:1::5"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			from := parseSecret(secretOf("b", goodKubeconfig, withAllowed(test.allowed)))
			must(t, from.problem)
			slice := exportedSlice("b", "web", "web-1")
			slice.Spec.Endpoints, slice.Spec.AddressType = nil, discoveryv1.AddressTypeIPv4
			if test.family != "" {
				slice.Spec.AddressType = discoveryv1.AddressType(test.family)
			}
			for _, address := range test.given {
				slice.Spec.Endpoints = append(slice.Spec.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
			}
			f, err := read(slice)
			must(t, err)
			arrived, taken, err := arrive("a", from, nil, f)
			if !taken {
				t.Fatalf("the slice is not taken: %v", err)
			}
			if (err != nil) != (test.dropped != "") || err != nil && !strings.Contains(err.Error(), test.dropped) {
				t.Errorf("got error %v, want %q", err, test.dropped)
			}
			var got []string
			for _, endpoint := range arrived.object.(*clusterset.ExportedEndpointSlice).Spec.Endpoints {
				got = append(got, endpoint.Addresses...)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if said := parseSecret(secretOf("b", goodKubeconfig, withAllowed("10.0.0.0"))); said.problem == nil || !strings.Contains(said.problem.Error(), "data[allowed-cidrs]") {
		t.Errorf("a network that is none: %v", said.problem)
	}
}
