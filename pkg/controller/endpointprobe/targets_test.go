// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package endpointprobe

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

func slice(ports []discoveryv1.EndpointPort, endpoints ...discoveryv1.Endpoint) []*clustersetv1alpha1.ExportedEndpointSlice {
	return []*clustersetv1alpha1.ExportedEndpointSlice{{Spec: clustersetv1alpha1.ExportedEndpointSliceSpec{Ports: ports, Endpoints: endpoints}}}
}

func at(addresses ...string) []discoveryv1.Endpoint {
	var endpoints []discoveryv1.Endpoint
	for _, address := range addresses {
		endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	return endpoints
}

// R276: choosing where to ask takes little memory, however many ports and endpoints a member exports
// within its limits: mcs-controller chooses for all members.
func TestTargetsOfManyPorts(t *testing.T) {
	var ports []discoveryv1.EndpointPort
	for port := range int32(1000) {
		ports = append(ports, discoveryv1.EndpointPort{Port: ptr.To(port + 1)})
	}
	var exported []*clustersetv1alpha1.ExportedEndpointSlice
	for i := range 50 {
		var addresses []string
		for j := range 1000 {
			addresses = append(addresses, fmt.Sprintf("10.1.%d.%d", i*4+j/250, j%250+1))
		}
		exported = append(exported, slice(ports, at(addresses...)...)...)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	chosen, turns := targets(exported, anywhere, netip.AddrPort{}, 0)
	runtime.ReadMemStats(&after)
	if len(chosen) != maxTargets || len(chosen[0]) != maxTargets || turns != maxTurns {
		t.Errorf("got %v in %d turns", chosen, turns)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
		t.Errorf("choosing took %d MiB", used>>20)
	}
}

// R303: only TCP ports of ready endpoints at allowed addresses are asked, three of them at
// up to three ports, first where an endpoint answered, and others in every turn.
func TestTargets(t *testing.T) {
	tcp := []discoveryv1.EndpointPort{{Port: ptr.To[int32](80)}}
	both := []discoveryv1.EndpointPort{{Port: ptr.To[int32](80), Protocol: ptr.To(corev1.ProtocolTCP)}, {Port: ptr.To[int32](53), Protocol: ptr.To(corev1.ProtocolUDP)}, {Port: ptr.To[int32](443)}}
	udp := []discoveryv1.EndpointPort{{Port: ptr.To[int32](53), Protocol: ptr.To(corev1.ProtocolUDP)}}
	var many []discoveryv1.EndpointPort
	for port := range int32(5) {
		many = append(many, discoveryv1.EndpointPort{Port: ptr.To(port + 1)})
	}
	unready := discoveryv1.Endpoint{Addresses: []string{"10.1.0.9"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}}
	two := at("10.1.1.1", "10.1.1.2", "10.1.1.3", "10.1.2.1", "10.1.2.2", "10.1.2.3") // of two nodes
	allowed := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("127.0.0.0/8")}
	none, alive := netip.AddrPort{}, netip.MustParseAddrPort
	for _, test := range []struct {
		name     string
		slices   []*clustersetv1alpha1.ExportedEndpointSlice
		answered netip.AddrPort
		turn     int
		want     string
		turns    int
	}{
		{"none", nil, none, 0, "[]", 0},
		{"UDP", slice(udp, at("10.1.0.1")...), none, 0, "[]", 0},
		{"no ports", slice(nil, at("10.1.0.1")...), none, 0, "[]", 0},
		{"one", slice(tcp, at("10.1.0.1")...), none, 7, "[[10.1.0.1:80]]", 1},
		{"IPv6", slice(tcp, at("fd00::1")...), none, 0, "[[[fd00::1]:80]]", 1},
		{"another port in every turn", slice(both, at("10.1.0.1")...), none, 1, "[[10.1.0.1:443] [10.1.0.1:80]]", 1},
		{"port that answered", slice(both, at("10.1.0.1")...), alive("10.1.0.1:80"), 1, "[[10.1.0.1:80] [10.1.0.1:443]]", 1},
		{"port that answered is gone", slice(both, at("10.1.0.1")...), alive("10.1.0.1:8080"), 0, "[[10.1.0.1:80] [10.1.0.1:443]]", 1},
		{"address that answered is gone", slice(both, at("10.1.0.1")...), alive("10.1.0.2:443"), 0, "[[10.1.0.1:443] [10.1.0.1:80]]", 1},
		{"three ports", slice(many, at("10.1.0.1")...), alive("10.1.0.1:4"), 0, "[[10.1.0.1:4] [10.1.0.1:1] [10.1.0.1:5]]", 2},
		{"three ports, second turn", slice(many, at("10.1.0.1")...), alive("10.1.0.1:4"), 1, "[[10.1.0.1:4] [10.1.0.1:3] [10.1.0.1:2]]", 2},
		{"not ready", slice(tcp, unready), none, 0, "[]", 0},
		{"not allowed", slice(tcp, at("10.2.0.1", "10.1.0.1", "host")...), none, 0, "[[10.1.0.1:80]]", 1},
		{"never an endpoint", slice(tcp, at("127.0.0.1")...), none, 0, "[]", 0},
		{"first turn", slice(tcp, two...), none, 0, "[[10.1.1.1:80 10.1.2.3:80 10.1.2.2:80]]", 3},
		{"second turn", slice(tcp, two...), none, 1, "[[10.1.2.1:80 10.1.1.3:80 10.1.1.2:80]]", 3},
		{"endpoint that answered", slice(tcp, two...), alive("10.1.2.2:80"), 0, "[[10.1.2.2:80 10.1.1.1:80 10.1.2.1:80]]", 3},
	} {
		got, turns := targets(test.slices, allowed, test.answered, test.turn)
		if fmt.Sprint(got) != test.want || turns != test.turns {
			t.Errorf("%s: %s in %d turns, want %s in %d", test.name, got, turns, test.want, test.turns)
		}
	}
	if got, _ := targets(slice(tcp, at("10.1.0.1")...), nil, none, 0); len(got) > 0 {
		t.Errorf("without allowed CIDRs: %s", got)
	}
}

// R301: only CIDRs of the IP families of an import count.
func TestCIDRsOfFamilies(t *testing.T) {
	cidrs := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")}
	for want, families := range map[string][]corev1.IPFamily{
		"[10.1.0.0/16 fd00::/8]": nil, "[10.1.0.0/16]": {corev1.IPv4Protocol}, "[fd00::/8]": {corev1.IPv6Protocol},
	} {
		if got := fmt.Sprint(ofFamilies(cidrs, families)); got != want {
			t.Errorf("of %v: %s, want %s", families, got, want)
		}
	}
}

// R315: in as many turns as are counted, everything is asked, whatever answered last.
func TestEverythingIsAskedInTurn(t *testing.T) {
	for ports := range int32(8) {
		for endpoints := range 12 {
			var numbers []int32
			for port := range ports {
				numbers = append(numbers, port+1)
			}
			var addresses []string
			for i := range endpoints {
				addresses = append(addresses, fmt.Sprint("10.1.0.", i+1))
			}
			exported := slice(tcp(numbers...), at(addresses...)...)
			for _, answered := range []netip.AddrPort{{}, netip.MustParseAddrPort("10.1.0.1:1")} {
				asked := sets.New[netip.AddrPort]()
				for turn := range turnsOf(int(ports)) * turnsOf(endpoints) {
					chosen, _ := targets(exported, anywhere, answered, turn)
					for _, some := range chosen {
						asked.Insert(some...)
					}
				}
				if want := int(ports) * endpoints; asked.Len() != want {
					t.Errorf("%d of %d endpoints at %d ports were asked", asked.Len(), want, ports)
				}
			}
		}
	}
}
