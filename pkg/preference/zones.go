// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package preference

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Zones are the zones of the nodes of this cluster.
type Zones struct {
	// Names are sorted.
	Names []string
	// Nodes is how many nodes count.
	Nodes int
	// Problem is why hints cannot be used, and what to do about it. It is empty if they can.
	Problem string
}

// ZonesOf returns the zones of nodes. Hints are used everywhere only if every node has one:
// kube-proxy ignores hints on a node without. Nodes on which it does not run, or that are
// about to get their labels, do not count.
func ZonesOf(nodes []*corev1.Node) Zones {
	names := map[string]bool{}
	var without []string
	nodes = slices.DeleteFunc(slices.Clone(nodes), isIrrelevant)
	for _, node := range nodes {
		if zone := node.Labels[corev1.LabelTopologyZone]; zone != "" {
			names[zone] = true
		} else {
			without = append(without, node.Name)
		}
	}
	zones := Zones{Names: slices.Sorted(maps.Keys(names)), Nodes: len(nodes)}
	switch {
	case len(nodes) == 0:
		zones.Problem = "no nodes are known, and so no zones for which endpoints could be hinted"
	case len(without) == len(nodes):
		zones.Problem = fmt.Sprintf("no node has the label %s; set it on all nodes", corev1.LabelTopologyZone)
	case len(without) > 0:
		zones.Problem = fmt.Sprintf("node %q has no label %s (%d of %d nodes do not); set it on all nodes",
			slices.Min(without), corev1.LabelTopologyZone, len(without), len(nodes))
	}
	return zones
}

const (
	// virtualNode is the label, and virtualNodeTaint the taint, of nodes of Virtual Kubelet.
	virtualNode, virtualNodeTaint = "type", "virtual-kubelet.io/provider"
	// uninitialized is the taint of nodes whose labels the cloud provider has not set yet.
	uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
)

// isIrrelevant reports whether the zone of a node does not matter, or not yet.
func isIrrelevant(node *corev1.Node) bool {
	return node.Labels[virtualNode] == "virtual-kubelet" || slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == virtualNodeTaint || taint.Key == uninitialized
	})
}
