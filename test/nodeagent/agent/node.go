// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"runtime"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// heartbeat is the maximum age of the conditions of the Node.
const heartbeat = time.Minute

// capacity is the reported capacity of the Node. It is not enforced.
func capacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("64"),
		corev1.ResourceMemory:           resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
}

// labels returns the required labels of the Node.
func (c *Config) labels() map[string]string {
	labels := map[string]string{
		corev1.LabelHostname:   c.NodeName,
		corev1.LabelOSStable:   "linux",
		corev1.LabelArchStable: runtime.GOARCH,
	}
	if c.Zone != "" {
		labels[corev1.LabelTopologyZone] = c.Zone
	}
	return labels
}

// desiredNode returns a Node with the desired metadata and spec. Additions of others
// stay, except taints that keep Pods from a ready node.
func (c *Config) desiredNode(current *corev1.Node) *corev1.Node {
	node := current.DeepCopy()
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	for key, value := range c.labels() {
		node.Labels[key] = value
	}
	if len(node.Spec.PodCIDRs) == 0 { // immutable
		node.Spec.PodCIDR, node.Spec.PodCIDRs = c.PodCIDRs[0], slices.Clone(c.PodCIDRs)
	}
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable
	})
	if len(node.Spec.Taints) == 0 {
		node.Spec.Taints = nil
	}
	return node
}

// desiredStatus returns the desired status of a Node. It is the current status if that
// is correct and recent.
func (c *Config) desiredStatus(current corev1.NodeStatus, now metav1.Time) corev1.NodeStatus {
	status := *current.DeepCopy()
	status.Capacity, status.Allocatable = capacity(), capacity()
	status.Addresses = c.addresses()
	status.DaemonEndpoints.KubeletEndpoint.Port = int32(c.API.Port)
	status.NodeInfo.OperatingSystem, status.NodeInfo.Architecture = "linux", runtime.GOARCH
	status.NodeInfo.KubeletVersion, status.NodeInfo.ContainerRuntimeVersion = "v0.0.0-test", "test://0"
	for _, condition := range []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "NotMeasured"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "NotMeasured"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "NotMeasured"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "AgentReady", Message: "test node agent is running"},
	} {
		setNodeCondition(&status, condition, now)
	}
	return status
}

func (c *Config) addresses() []corev1.NodeAddress {
	var addresses []corev1.NodeAddress
	for _, ip := range c.NodeIPs {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	return append(addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: c.NodeName})
}

func setNodeCondition(status *corev1.NodeStatus, condition corev1.NodeCondition, now metav1.Time) {
	condition.LastHeartbeatTime, condition.LastTransitionTime = now, now
	i := slices.IndexFunc(status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == condition.Type })
	if i < 0 {
		status.Conditions = append(status.Conditions, condition)
		return
	}
	before := status.Conditions[i]
	if before.Status == condition.Status {
		condition.LastTransitionTime = before.LastTransitionTime
		if now.Sub(before.LastHeartbeatTime.Time) < heartbeat {
			condition.LastHeartbeatTime = before.LastHeartbeatTime
		}
	}
	status.Conditions[i] = condition
}

// nodeIsRight reports whether the Node needs no update.
func (c *Config) nodeIsRight(node *corev1.Node, now metav1.Time) (meta, status bool) {
	desired := c.desiredNode(node)
	meta = equality.Semantic.DeepEqual(node.Labels, desired.Labels) && equality.Semantic.DeepEqual(node.Spec, desired.Spec)
	return meta, equality.Semantic.DeepEqual(node.Status, c.desiredStatus(node.Status, now))
}

// hostIPs returns the addresses of the Node for a Pod status.
func (c *Config) hostIPs() []corev1.HostIP {
	var ips []corev1.HostIP
	for _, ip := range c.NodeIPs {
		ips = append(ips, corev1.HostIP{IP: ip})
	}
	return ips
}

func (c *Config) nodeAddresses() []netip.Addr {
	var addresses []netip.Addr
	for _, ip := range c.NodeIPs {
		addresses = append(addresses, netip.MustParseAddr(ip)) // Complete has validated them
	}
	return addresses
}
