// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPodsReachEachOtherThroughTheNode(t *testing.T) {
	got := podCommands(
		[]netip.Addr{netip.MustParseAddr("10.81.0.2"), netip.MustParseAddr("fd00:81::2")},
		[]netip.Addr{netip.MustParseAddr("10.81.0.1"), netip.MustParseAddr("fd00:81::1")})
	want := []string{
		"link set dev lo up",
		"link set dev eth0 up",
		"address add 10.81.0.2/32 dev eth0",
		"route add 10.81.0.1/32 dev eth0 scope link",
		"route add default via 10.81.0.1 dev eth0",
		"address add fd00:81::2/128 dev eth0 nodad",
		"route add fd00:81::1/128 dev eth0",
		"route add ::/0 via fd00:81::1 dev eth0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBridgeHasTheGateways(t *testing.T) {
	bridge := &net.Interface{Name: "cbr0", HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}
	got := bridgeCommands(bridge, []netip.Prefix{netip.MustParsePrefix("10.81.0.1/16"), netip.MustParsePrefix("fd00:81::1/64")})
	want := []string{
		"link set dev cbr0 address 02:00:00:00:00:01 up",
		"address replace 10.81.0.1/16 dev cbr0",
		"address replace fd00:81::1/64 dev cbr0 nodad",
		"neighbor flush dev cbr0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLinkNamesFit(t *testing.T) {
	one, other := linkName("11111111-1111-1111-1111-111111111111"), linkName("11111111-1111-1111-1111-111111111112")
	if one == other {
		t.Errorf("two Pods share the interface %s", one)
	}
	if len(one) > 15 {
		t.Errorf("%s is too long for Linux", one)
	}
}
