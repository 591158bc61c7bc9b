// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/exports"
)

func node(name string, podCIDRs []string, addresses ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: podCIDRs[0], PodCIDRs: podCIDRs}}
	for _, address := range addresses {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Address: address})
	}
	return node
}

// R205: the networks of this cluster are those of its Nodes and ServiceCIDRs.
func TestNetworksOfThisCluster(t *testing.T) {
	c := newCluster(t)
	expect := func(nodes []netip.Addr, services, pods []netip.Prefix) {
		t.Helper()
		must(t, c.syncNetworks())
		if !c.networks.current.Equal(exports.NewNetworks(nodes, services, pods)) {
			t.Errorf("networks are %+v, want nodes %v, services %v and pods %v", c.networks.current, nodes, services, pods)
		}
	}
	expect(nil, nil, nil)
	first := node("one", []string{"10.244.0.0/24", "fd00:1::/64"}, "192.168.0.1", "fd00::1", "one.example")
	c.add(first, node("two", []string{""}, "192.168.0.2"),
		&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16", "fd00:96::/112"}}})
	addresses := []netip.Addr{netip.MustParseAddr("192.168.0.1"), netip.MustParseAddr("192.168.0.2"), netip.MustParseAddr("fd00::1")}
	services := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")}
	expect(addresses, services, []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParsePrefix("fd00:1::/64")})
	before := c.networks.current
	must(t, c.syncNetworks())
	if c.networks.current != before {
		t.Error("the same networks are taken for others")
	}
	c.remove(first)
	expect(addresses[1:2], services, nil)
}

func TestOnlyTheNetworksOfNodesAreKept(t *testing.T) {
	given := node("one", []string{"10.244.0.0/24"}, "192.168.0.1")
	given.UID, given.ResourceVersion = "uid", "7"
	full := given.DeepCopy()
	full.Labels, full.Status.Images = map[string]string{"x": "y"}, []corev1.ContainerImage{{Names: []string{"image"}}}
	got, err := essentialNode(full)
	must(t, err)
	if diff := cmp.Diff(given, got); diff != "" {
		t.Error(diff)
	}
}
