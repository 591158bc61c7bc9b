// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/yaml"
)

// maxPods limits how many Pods are read. Those tell which addresses the Pod network has.
const maxPods = 1000

// observePodCIDRs reads the Pod CIDRs of the nodes.
func (o *observer) observePodCIDRs(ctx context.Context) error {
	nodes, err := o.Kubernetes.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range nodes.Items {
		o.facts.Networks.PodCIDRs = append(o.facts.Networks.PodCIDRs, nodes.Items[i].Spec.PodCIDRs...)
	}
	return nil
}

// observePodIPs reads the addresses of Pods: nodes may have no Pod CIDR, or one that the Pod
// network does not use.
func (o *observer) observePodIPs(ctx context.Context) error {
	pods, err := o.Kubernetes.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		Limit: maxPods, FieldSelector: fields.OneTermEqualSelector("spec.hostNetwork", "false").String(),
	})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		if pods.Items[i].Spec.HostNetwork {
			continue
		}
		for _, ip := range pods.Items[i].Status.PodIPs {
			o.facts.Networks.PodIPs = append(o.facts.Networks.PodIPs, ip.IP)
		}
	}
	return nil
}

// observeServiceCIDRs reads the Service CIDRs.
func (o *observer) observeServiceCIDRs(ctx context.Context) error {
	list, err := o.Kubernetes.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		o.facts.Networks.ServiceCIDRs = append(o.facts.Networks.ServiceCIDRs, list.Items[i].Spec.CIDRs...)
	}
	return nil
}

// proxyMode returns the mode in a configuration of kube-proxy, and whether it is one.
func proxyMode(configuration string) (mode string, found bool, err error) {
	if configuration == "" {
		return "", false, nil
	}
	var parsed struct {
		Mode string `json:"mode"`
	}
	err = yaml.Unmarshal([]byte(configuration), &parsed)
	return parsed.Mode, err == nil, err
}
