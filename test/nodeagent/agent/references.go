// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import corev1 "k8s.io/api/core/v1"

// object is a ConfigMap or Secret in the namespace of a Pod.
type object struct{ resource, name string }

// Resources that Pods refer to.
const (
	configMaps = "configmaps"
	secrets    = "secrets"
)

// references returns the objects whose content a Pod uses.
func references(pod *corev1.Pod) map[object]bool {
	found := map[object]bool{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			environmentReferences(&list[i], found)
		}
	}
	for _, volume := range pod.Spec.Volumes {
		switch {
		case volume.ConfigMap != nil:
			found[object{configMaps, volume.ConfigMap.Name}] = true
		case volume.Secret != nil:
			found[object{secrets, volume.Secret.SecretName}] = true
		case volume.Projected != nil:
			for _, source := range volume.Projected.Sources {
				if source.ConfigMap != nil {
					found[object{configMaps, source.ConfigMap.Name}] = true
				}
				if source.Secret != nil {
					found[object{secrets, source.Secret.Name}] = true
				}
			}
		}
	}
	return found
}

func environmentReferences(container *corev1.Container, found map[object]bool) {
	for _, source := range container.EnvFrom {
		if source.ConfigMapRef != nil {
			found[object{configMaps, source.ConfigMapRef.Name}] = true
		}
		if source.SecretRef != nil {
			found[object{secrets, source.SecretRef.Name}] = true
		}
	}
	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			continue
		}
		if ref := variable.ValueFrom.ConfigMapKeyRef; ref != nil {
			found[object{configMaps, ref.Name}] = true
		}
		if ref := variable.ValueFrom.SecretKeyRef; ref != nil {
			found[object{secrets, ref.Name}] = true
		}
	}
}
