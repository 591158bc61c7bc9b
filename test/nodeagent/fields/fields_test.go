// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOf(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pod", Namespace: "space", UID: "1-2",
			Labels:      map[string]string{"b": "2", "a": `1"`},
			Annotations: map[string]string{"example.com/note": "text"},
		},
		Spec: corev1.PodSpec{NodeName: "node", ServiceAccountName: "account"},
		Status: corev1.PodStatus{
			PodIP: "10.0.0.2", PodIPs: []corev1.PodIP{{IP: "10.0.0.2"}, {IP: "fd00::2"}},
			HostIP: "10.1.0.1", HostIPs: []corev1.HostIP{{IP: "10.1.0.1"}},
		},
	}
	for path, want := range map[string]string{
		"metadata.name":                               "pod",
		"metadata.namespace":                          "space",
		"metadata.uid":                                "1-2",
		"metadata.labels":                             "a=\"1\\\"\"\nb=\"2\"",
		"metadata.labels['b']":                        "2",
		"metadata.labels['absent']":                   "",
		"metadata.annotations['example.com/note']":    "text",
		"metadata.annotations['example.com/nothing']": "",
		"spec.nodeName":                               "node",
		"spec.serviceAccountName":                     "account",
		"status.podIP":                                "10.0.0.2",
		"status.podIPs":                               "10.0.0.2,fd00::2",
		"status.hostIP":                               "10.1.0.1",
		"status.hostIPs":                              "10.1.0.1",
	} {
		if got, err := Of(pod, path); err != nil || got != want {
			t.Errorf("%s: got %q, %v", path, got, err)
		}
	}
	for _, path := range []string{"", "spec.containers", "spec['x']"} {
		if got, err := Of(pod, path); err == nil {
			t.Errorf("%s: got %q", path, got)
		}
	}
}

func TestResource(t *testing.T) {
	container := &corev1.Container{Resources: corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")},
	}}
	node := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	for _, test := range []struct{ resource, divisor, want string }{
		{"limits.memory", "0", "67108864"},
		{"limits.memory", "1Mi", "64"},
		{"limits.cpu", "0", "4"},
		{"requests.cpu", "1", "1"},
		{"requests.cpu", "1m", "250"},
		{"requests.memory", "1", "0"},
	} {
		selector := &corev1.ResourceFieldSelector{Resource: test.resource, Divisor: resource.MustParse(test.divisor)}
		if got, err := Resource(container, node, selector); err != nil || got != test.want {
			t.Errorf("%s / %s: got %q, %v", test.resource, test.divisor, got, err)
		}
	}
	if _, err := Resource(container, node, &corev1.ResourceFieldSelector{Resource: "memory"}); err == nil {
		t.Error("an unknown resource was accepted")
	}
}
