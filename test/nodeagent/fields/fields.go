// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fields implements the downward API.
package fields

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Of returns the value of a field, such as metadata.labels['app'].
func Of(pod *corev1.Pod, path string) (string, error) {
	if base, key, ok := subscript(path); ok {
		switch base {
		case "metadata.labels":
			return pod.Labels[key], nil
		case "metadata.annotations":
			return pod.Annotations[key], nil
		}
		return "", unsupported(path)
	}
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return quoted(pod.Labels), nil
	case "metadata.annotations":
		return quoted(pod.Annotations), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP":
		return pod.Status.PodIP, nil
	case "status.podIPs":
		return joined(pod.Status.PodIPs, func(ip corev1.PodIP) string { return ip.IP }), nil
	case "status.hostIP":
		return pod.Status.HostIP, nil
	case "status.hostIPs":
		return joined(pod.Status.HostIPs, func(ip corev1.HostIP) string { return ip.IP }), nil
	}
	return "", unsupported(path)
}

// Resource returns the value of a resource of a container, such as limits.memory. Without a
// limit, it is the resource of the node.
func Resource(container *corev1.Container, node corev1.ResourceList, selector *corev1.ResourceFieldSelector) (string, error) {
	kind, name, _ := strings.Cut(selector.Resource, ".")
	var quantity resource.Quantity
	var found bool
	switch kind {
	case "requests":
		quantity, found = container.Resources.Requests[corev1.ResourceName(name)]
	case "limits":
		if quantity, found = container.Resources.Limits[corev1.ResourceName(name)]; !found {
			quantity, found = node[corev1.ResourceName(name)]
		}
	default:
		return "", unsupported(selector.Resource)
	}
	if !found {
		quantity = resource.Quantity{}
	}
	divisor := selector.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	// Both in thousandths, rounded up.
	value, unit := quantity.MilliValue(), divisor.MilliValue()
	return strconv.FormatInt((value+unit-1)/unit, 10), nil
}

// subscript splits metadata.labels['app'].
func subscript(path string) (base, key string, ok bool) {
	base, rest, ok := strings.Cut(path, "['")
	if !ok || !strings.HasSuffix(rest, "']") {
		return "", "", false
	}
	return base, strings.TrimSuffix(rest, "']"), true
}

// quoted returns one line per value.
func quoted(values map[string]string) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		lines = append(lines, fmt.Sprintf("%s=%q", key, values[key]))
	}
	return strings.Join(lines, "\n")
}

func joined[T any](values []T, text func(T) string) string {
	var texts []string
	for _, value := range values {
		texts = append(texts, text(value))
	}
	return strings.Join(texts, ",")
}

func unsupported(path string) error {
	return fmt.Errorf("unsupported field %q", path)
}
