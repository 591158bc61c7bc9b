// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package coredns

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Workload is a Deployment or DaemonSet.
type Workload struct {
	Kind, Namespace, Name string
	Selector              *metav1.LabelSelector
	Template              corev1.PodTemplateSpec
	// RolledOut is true if all Pods are those of the template.
	RolledOut bool
}

func (w *Workload) String() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// ServiceAccount returns the name of the service account of the Pods.
func (w *Workload) ServiceAccount() string {
	if name := w.Template.Spec.ServiceAccountName; name != "" {
		return name
	}
	return "default"
}

// container returns the container that runs CoreDNS, or nil.
func (w *Workload) container() *corev1.Container {
	for i := range w.Template.Spec.Containers {
		container := &w.Template.Spec.Containers[i]
		name, _ := splitImage(container.Image)
		if strings.Contains(path.Base(name), "coredns") || slices.ContainsFunc(container.Command, func(arg string) bool { return path.Base(arg) == "coredns" }) {
			return container
		}
	}
	return nil
}

// flag returns the value of a flag of a container, which has one of the names.
func flag(container *corev1.Container, defaultValue string, names ...string) string {
	args := slices.Concat(container.Command, container.Args)
	for i, arg := range args {
		key, value, assigned := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-") || !slices.Contains(names, key):
		case assigned:
			return value
		case i+1 < len(args):
			return args[i+1]
		}
	}
	return defaultValue
}

func splitImage(image string) (name, tag string) {
	image, _, _ = strings.Cut(image, "@")
	if at := strings.LastIndex(image, ":"); at > strings.LastIndex(image, "/") {
		return image[:at], image[at+1:]
	}
	return image, ""
}
