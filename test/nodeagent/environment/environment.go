// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package environment computes the environment variables of containers.
package environment

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/fields"
)

// Builder builds environments.
type Builder struct {
	Client kubernetes.Interface
	// Node has the allocatable resources of the node.
	Node corev1.ResourceList
}

// Build returns the environment of a container: the base, then envFrom, then env; later
// values have precedence. Objects are read from the API server, so that a container sees
// everything that was written before its start. The status of the Pod must have its
// addresses.
func (b *Builder) Build(ctx context.Context, pod *corev1.Pod, container *corev1.Container, base map[string]string) (map[string]string, error) {
	values := maps.Clone(base)
	for _, source := range container.EnvFrom {
		found, err := b.from(ctx, pod.Namespace, source)
		if err != nil {
			return nil, err
		}
		for key, value := range found {
			values[source.Prefix+key] = value
		}
	}
	for _, variable := range container.Env {
		value, err := b.value(ctx, pod, container, variable, values)
		if err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", variable.Name, err)
		}
		if value != nil {
			values[variable.Name] = *value
		}
	}
	return values, nil
}

// List returns an environment in the form of os.Environ, sorted.
func List(values map[string]string) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list = append(list, name+"="+values[name])
	}
	return list
}

func (b *Builder) from(ctx context.Context, namespace string, source corev1.EnvFromSource) (map[string]string, error) {
	if ref := source.ConfigMapRef; ref != nil {
		configMap, err := b.Client.CoreV1().ConfigMaps(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, unlessOptional(err, ref.Optional)
		}
		return configMap.Data, nil
	}
	if ref := source.SecretRef; ref != nil {
		secret, err := b.Client.CoreV1().Secrets(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, unlessOptional(err, ref.Optional)
		}
		values := map[string]string{}
		for key, value := range secret.Data {
			values[key] = string(value)
		}
		return values, nil
	}
	return nil, nil
}

// value returns the value of a variable, or nil if it is optional and missing.
func (b *Builder) value(ctx context.Context, pod *corev1.Pod, container *corev1.Container, variable corev1.EnvVar, before map[string]string) (*string, error) {
	source := variable.ValueFrom
	if source == nil {
		value := Expand(variable.Value, before)
		return &value, nil
	}
	var value string
	var err error
	switch {
	case source.FieldRef != nil:
		value, err = fields.Of(pod, source.FieldRef.FieldPath)
	case source.ResourceFieldRef != nil:
		value, err = b.resource(pod, container, source.ResourceFieldRef)
	case source.ConfigMapKeyRef != nil:
		return b.configMapKey(ctx, pod.Namespace, source.ConfigMapKeyRef)
	case source.SecretKeyRef != nil:
		return b.secretKey(ctx, pod.Namespace, source.SecretKeyRef)
	default:
		err = fmt.Errorf("unsupported source of the value")
	}
	return &value, err
}

func (b *Builder) resource(pod *corev1.Pod, container *corev1.Container, ref *corev1.ResourceFieldSelector) (string, error) {
	if ref.ContainerName != "" && ref.ContainerName != container.Name {
		for i := range pod.Spec.Containers {
			if pod.Spec.Containers[i].Name == ref.ContainerName {
				return fields.Resource(&pod.Spec.Containers[i], b.Node, ref)
			}
		}
		return "", fmt.Errorf("container %q does not exist", ref.ContainerName)
	}
	return fields.Resource(container, b.Node, ref)
}

func (b *Builder) configMapKey(ctx context.Context, namespace string, ref *corev1.ConfigMapKeySelector) (*string, error) {
	configMap, err := b.Client.CoreV1().ConfigMaps(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, unlessOptional(err, ref.Optional)
	}
	value, found := configMap.Data[ref.Key]
	return key("ConfigMap", ref.Name, ref.Key, value, found, ref.Optional)
}

func (b *Builder) secretKey(ctx context.Context, namespace string, ref *corev1.SecretKeySelector) (*string, error) {
	secret, err := b.Client.CoreV1().Secrets(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, unlessOptional(err, ref.Optional)
	}
	value, found := secret.Data[ref.Key]
	return key("Secret", ref.Name, ref.Key, string(value), found, ref.Optional)
}

func key(kind, name, key, value string, found bool, optional *bool) (*string, error) {
	switch {
	case found:
		return &value, nil
	case optional != nil && *optional:
		return nil, nil
	}
	return nil, fmt.Errorf("%s %s has no key %q", kind, name, key)
}

// unlessOptional returns nil if the error means that an optional object is missing.
func unlessOptional(err error, optional *bool) error {
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil
	}
	return err
}

// ServiceVariables returns the variables with the address of the API server.
func ServiceVariables(kubernetes *corev1.Service) map[string]string {
	values := map[string]string{"KUBERNETES_SERVICE_HOST": kubernetes.Spec.ClusterIP}
	for i, port := range kubernetes.Spec.Ports {
		text := fmt.Sprint(port.Port)
		if i == 0 {
			values["KUBERNETES_SERVICE_PORT"] = text
		}
		if port.Name != "" {
			values["KUBERNETES_SERVICE_PORT_"+strings.ToUpper(strings.ReplaceAll(port.Name, "-", "_"))] = text
		}
	}
	return values
}
