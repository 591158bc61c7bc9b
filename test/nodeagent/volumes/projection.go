// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/test/nodeagent/fields"
)

// defaultMode is the default of the API server.
const defaultMode = 0o644

// projections returns the sources of a volume with content from the API, or none. ConfigMap, Secret
// and downward API volumes are treated as projected volumes with one source.
func projections(volume *corev1.Volume) (sources []corev1.VolumeProjection, mode *int32) {
	switch {
	case volume.Projected != nil:
		return volume.Projected.Sources, volume.Projected.DefaultMode
	case volume.ConfigMap != nil:
		source := volume.ConfigMap
		return []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: source.LocalObjectReference, Items: source.Items, Optional: source.Optional,
		}}}, source.DefaultMode
	case volume.Secret != nil:
		source := volume.Secret
		return []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: source.SecretName}, Items: source.Items, Optional: source.Optional,
		}}}, source.DefaultMode
	case volume.DownwardAPI != nil:
		return []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{Items: volume.DownwardAPI.Items}}}, volume.DownwardAPI.DefaultMode
	}
	return nil, nil
}

// project returns the content of a volume.
func (s *Set) project(ctx context.Context, pod *corev1.Pod, sources []corev1.VolumeProjection, mode *int32) (payload, error) {
	all := payload{}
	for _, source := range sources {
		files, err := s.source(ctx, pod, source, fileMode(mode, defaultMode))
		if err != nil {
			return nil, err
		}
		if err := all.add(files); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s *Set) source(ctx context.Context, pod *corev1.Pod, source corev1.VolumeProjection, mode fs.FileMode) (payload, error) {
	core := s.manager.Client.CoreV1()
	switch {
	case source.ConfigMap != nil:
		ref := source.ConfigMap
		configMap, err := core.ConfigMaps(pod.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, unlessOptional(err, ref.Optional)
		}
		data := map[string]string{}
		for key, value := range configMap.Data {
			data[key] = value
		}
		for key, value := range configMap.BinaryData {
			data[key] = string(value)
		}
		return pick("ConfigMap "+ref.Name, data, ref.Items, mode, ref.Optional)
	case source.Secret != nil:
		ref := source.Secret
		secret, err := core.Secrets(pod.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, unlessOptional(err, ref.Optional)
		}
		data := map[string]string{}
		for key, value := range secret.Data {
			data[key] = string(value)
		}
		return pick("Secret "+ref.Name, data, ref.Items, mode, ref.Optional)
	case source.DownwardAPI != nil:
		return s.downward(pod, source.DownwardAPI.Items, mode)
	case source.ServiceAccountToken != nil:
		token, err := s.token(ctx, pod, source.ServiceAccountToken)
		return payload{source.ServiceAccountToken.Path: {data: token, mode: mode}}, err
	}
	return nil, errors.New("unsupported source of a projected volume: only configMap, secret, downwardAPI and serviceAccountToken are supported")
}

// pick returns the selected keys, or all.
func pick(owner string, data map[string]string, items []corev1.KeyToPath, mode fs.FileMode, optional *bool) (payload, error) {
	files := payload{}
	if items == nil {
		for key, value := range data {
			files[key] = file{data: value, mode: mode}
		}
		return files, nil
	}
	for _, item := range items {
		value, exists := data[item.Key]
		if exists {
			files[item.Path] = file{data: value, mode: fileMode(item.Mode, mode)}
		} else if optional == nil || !*optional {
			return nil, fmt.Errorf("%s has no key %q", owner, item.Key)
		}
	}
	return files, nil
}

func (s *Set) downward(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, mode fs.FileMode) (payload, error) {
	files := payload{}
	for _, item := range items {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = fields.Of(pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = s.resource(pod, item.ResourceFieldRef)
		}
		if err != nil {
			return nil, err
		}
		files[item.Path] = file{data: value, mode: fileMode(item.Mode, mode)}
	}
	return files, nil
}

func (s *Set) resource(pod *corev1.Pod, ref *corev1.ResourceFieldSelector) (string, error) {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == ref.ContainerName {
			return fields.Resource(&pod.Spec.Containers[i], s.manager.Node, ref)
		}
	}
	return "", fmt.Errorf("container %q does not exist", ref.ContainerName)
}

// token returns a token of the Pod's service account that is bound to the Pod. It is renewed when a fifth
// of its lifetime is left.
func (s *Set) token(ctx context.Context, pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection) (string, error) {
	key := tokenKey{audience: source.Audience}
	if source.ExpirationSeconds != nil {
		key.seconds = *source.ExpirationSeconds
	}
	if known := s.tokens[key]; time.Now().Before(known.renew) {
		return known.value, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: source.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if source.Audience != "" {
		request.Spec.Audiences = []string{source.Audience}
	}
	asked := time.Now()
	answer, err := s.manager.Client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("request token of service account %s: %w", pod.Spec.ServiceAccountName, err)
	}
	life := answer.Status.ExpirationTimestamp.Sub(asked)
	s.tokens[key] = token{value: answer.Status.Token, renew: asked.Add(life * 4 / 5)}
	return answer.Status.Token, nil
}

func fileMode(mode *int32, otherwise fs.FileMode) fs.FileMode {
	if mode == nil {
		return otherwise
	}
	return fs.FileMode(*mode)
}

// unlessOptional returns nil if the error means that an optional object is missing.
func unlessOptional(err error, optional *bool) error {
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil
	}
	return err
}
