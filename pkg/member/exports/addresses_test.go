// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

// Addresses that no Pod of another cluster can have are dropped and reported,
// and so are those outside of the allowed CIDRs.
func TestUnusableEndpointsAreDropped(t *testing.T) {
	for _, test := range []struct {
		name                 string
		allowed, given, want []string
		dropped, family      string
	}{
		{name: "all usable", given: []string{"10.0.0.1", "192.168.1.1"}, want: []string{"10.0.0.1", "192.168.1.1"}},
		{name: "loopback and unspecified", given: []string{"127.0.0.1", "10.0.0.1", "0.0.0.0"}, want: []string{"10.0.0.1"}, dropped: "2 endpoints are ignored"},
		{name: "metadata services", given: []string{"169.254.169.254"}, dropped: "for example 169.254.169.254"},
		{name: "multicast", given: []string{"224.0.0.1"}, dropped: "1 endpoints"},
		{name: "IPv6", family: "IPv6", given: []string{"::1", "fe80::1", "ff02::1", "fd00::1"}, want: []string{"fd00::1"}, dropped: "3 endpoints"},
		{name: "outside of the allowed CIDRs", allowed: []string{"10.1.0.0/16", "fd00:1::/64"}, given: []string{"10.1.2.3", "10.2.0.1"}, want: []string{"10.1.2.3"}, dropped: "allowed-cidrs"},
		{name: "inside of the allowed CIDRs", allowed: []string{"10.1.0.0/16", "fd00:1::/64"}, family: "IPv6", given: []string{"fd00:1::5"}, want: []string{"fd00:1::5"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			policy := Policy{Self: "a", Member: "b"}
			for _, text := range test.allowed {
				policy.AllowedCIDRs = append(policy.AllowedCIDRs, netip.MustParsePrefix(text))
			}
			slice := membertest.ExportedSlice("b", "web", "web-1")
			slice.Spec.Endpoints, slice.Spec.AddressType = nil, discoveryv1.AddressTypeIPv4
			if test.family != "" {
				slice.Spec.AddressType = discoveryv1.AddressType(test.family)
			}
			for _, address := range test.given {
				slice.Spec.Endpoints = append(slice.Spec.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
			}
			object, err := Decode(slice)
			if err != nil {
				t.Fatal(err)
			}
			admitted := policy.Admit(object)
			refusal := admitted.Err
			if !admitted.Admitted {
				t.Fatalf("the slice is rejected: %v", refusal)
			}
			if int(admitted.Object.Endpoints) != len(test.given) {
				t.Errorf("%d endpoints are counted, want all %d in the feed", admitted.Object.Endpoints, len(test.given))
			}
			if (refusal != nil) != (test.dropped != "") || refusal != nil && !strings.Contains(refusal.Error(), test.dropped) {
				t.Errorf("got error %v, want %q", refusal, test.dropped)
			}
			var got []string
			for _, endpoint := range admitted.Object.Object.(*clusterset.ExportedEndpointSlice).Spec.Endpoints {
				got = append(got, endpoint.Addresses...)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// R205: members cannot direct traffic to Nodes, Services and Pods of this cluster.
func TestAddressesOfThisClusterAreDropped(t *testing.T) {
	prefix := netip.MustParsePrefix
	networks := NewNetworks([]netip.Addr{netip.MustParseAddr("192.168.0.5"), netip.MustParseAddr("fd00:a::5")},
		[]netip.Prefix{prefix("10.96.0.0/16"), prefix("fd00:96::/112")}, []netip.Prefix{prefix("10.244.1.0/24"), prefix("10.244.2.0/24"), prefix("fd00:244::/64")})
	for _, test := range []struct{ address, allowed, want string }{
		{"192.168.0.5", "", "address of a Node of this cluster"},
		{"192.168.0.5", "192.168.0.5/32", "address of a Node of this cluster"},
		{"192.168.0.6", "", ""},
		{"fd00:a::5", "", "address of a Node of this cluster"},
		{"10.96.0.1", "", "in the Service CIDR 10.96.0.0/16 of this cluster"},
		{"10.96.0.1", "10.96.0.0/16", "in the Service CIDR 10.96.0.0/16 of this cluster"},
		{"10.97.0.1", "", ""},
		{"fd00:96::ffff", "", "in the Service CIDR fd00:96::/112 of this cluster"},
		{"10.244.1.7", "", "in the Pod CIDR 10.244.1.0/24 of this cluster"},
		{"10.244.2.7", "10.244.1.0/24,10.244.2.7/32", "in the Pod CIDR 10.244.2.0/24 of this cluster"},
		{"10.244.3.7", "", ""},
		{"fd00:244::7", "", "in the Pod CIDR fd00:244::/64 of this cluster"},
		{"10.244.2.7", "10.244.0.0/16", ""}, // a common Pod network
		{"243.0.0.1", "", "in the ClusterSet IP range"},
		{"::ffff:10.244.1.7", "", "in the Pod CIDR 10.244.1.0/24 of this cluster"},
	} {
		policy := Policy{Self: "a", Member: "b", Networks: networks, Ranges: []netip.Prefix{prefix("243.0.0.0/8")}}
		for _, text := range strings.FieldsFunc(test.allowed, func(r rune) bool { return r == ',' }) {
			policy.AllowedCIDRs = append(policy.AllowedCIDRs, prefix(text))
		}
		if got := policy.unusable(test.address); got != test.want {
			t.Errorf("%s with allowed CIDRs %q: got %q, want %q", test.address, test.allowed, got, test.want)
		}
	}
	if got := (Policy{}).unusable("10.96.0.1"); got != "" {
		t.Errorf("without networks, an address is %s", got)
	}
}

func TestNetworksAreCompared(t *testing.T) {
	node, prefix := []netip.Addr{netip.MustParseAddr("10.0.0.1")}, []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
	if !NewNetworks(node, prefix, nil).Equal(NewNetworks(node, prefix, nil)) || !(*Networks)(nil).Equal(nil) {
		t.Error("the same networks are not equal")
	}
	for _, other := range []*Networks{nil, NewNetworks(nil, prefix, nil), NewNetworks(node, nil, nil), NewNetworks(node, nil, prefix), NewNetworks(node, prefix, prefix)} {
		if NewNetworks(node, prefix, nil).Equal(other) || other.Equal(NewNetworks(node, prefix, nil)) {
			t.Errorf("%v is equal", other)
		}
	}
}

// No member can redirect traffic by naming an address outside of the range.
func TestSharedIPsOutsideOfTheRangeAreDropped(t *testing.T) {
	ranges := []netip.Prefix{netip.MustParsePrefix("243.0.0.0/8")}
	for ip, admitted := range map[string]bool{"243.1.0.1": true, "10.96.0.1": false, "8.8.8.8": false, "fd00::1": false} {
		service := &clusterset.ExportedService{Spec: clusterset.ExportedServiceSpec{ClusterSetIP: &clusterset.ClusterSetIPDecision{IPs: []string{ip}, DecidedBy: "b"}}}
		got, err := dropForeignIPs(service, ranges)
		if (err == nil) != admitted || (got.Spec.ClusterSetIP != nil) != admitted || service.Spec.ClusterSetIP == nil {
			t.Errorf("%s: %v, %+v", ip, err, got.Spec.ClusterSetIP)
		}
	}
	if _, err := dropForeignIPs(&clusterset.ExportedService{}, ranges); err != nil {
		t.Error(err)
	}
}
