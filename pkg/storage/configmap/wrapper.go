// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	domain = "storage.mcs-apiserver.io"
	// ResourceLabel is the wrapped object's resource, with its group.
	ResourceLabel = domain + "/resource"
	// NamespaceLabel is the wrapped object's namespace.
	NamespaceLabel = domain + "/namespace"

	// Labels and selectable fields of the wrapped object have prefixes of their
	// own, so that users cannot set the labels above.
	objectLabelPrefix = "label." + domain + "/"
	objectFieldPrefix = "field." + domain + "/"

	// These fields have no labels of their own, which would make every write more
	// expensive. There is a label for the namespace, and a name in all namespaces is
	// hardly ever selected: the host returns all names, and the predicate selects.
	nameField      = "metadata.name"
	namespaceField = "metadata.namespace"

	keyData    = "key"
	objectData = "object"

	// maxObjectBytes leaves room for the key within the 1 MiB that the data of a
	// ConfigMap may have, and maxWrapperBytes for the rest of a request within the
	// 1.5 MiB that etcd accepts.
	maxObjectBytes  = 1<<20 - 4<<10
	maxWrapperBytes = 1400 << 10
)

// wrapping describes the object that a wrapper holds.
type wrapping struct {
	resource  schema.GroupResource
	key       string
	namespace string
	labels    labels.Set
	fields    fields.Set
	data      []byte
}

// wrap returns the wrapper of an object.
func wrap(w wrapping) *corev1.ConfigMap {
	wrapper := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: wrapperName(w.resource, w.key), Labels: map[string]string{ResourceLabel: w.resource.String()}},
		Data:       map[string]string{keyData: w.key, objectData: string(w.data)},
	}
	if w.namespace != "" {
		wrapper.Labels[NamespaceLabel] = labelValue(w.namespace)
	}
	for key, value := range w.labels {
		wrapper.Labels[objectLabel(key)] = labelValue(value)
	}
	for key, value := range w.fields {
		if key != nameField && key != namespaceField {
			wrapper.Labels[objectField(key)] = hash(value)
		}
	}
	return wrapper
}

// storedSize returns the approximate size of a wrapper in the etcd of the host, with
// the managed fields that the host adds.
func storedSize(wrapper *corev1.ConfigMap) int {
	size := wrapper.Size()
	for key := range wrapper.Labels {
		size += len(`"f:":{},`) + len(key)
	}
	return size
}

// replace lets a wrapper replace an existing one, and no other version of it.
func replace(wrapper, existing *corev1.ConfigMap) {
	wrapper.UID, wrapper.ResourceVersion = existing.UID, existing.ResourceVersion
	wrapper.Annotations = maps.Clone(existing.Annotations)
}

// unwrap returns the key and the encoded object. It returns an error if the key
// does not match the name of the wrapper.
func unwrap(resource schema.GroupResource, wrapper *corev1.ConfigMap) (key string, data []byte, err error) {
	key, hasKey := wrapper.Data[keyData]
	object, hasObject := wrapper.Data[objectData]
	switch {
	case !hasKey || !hasObject:
		return "", nil, fmt.Errorf("data lacks %q or %q", keyData, objectData)
	case wrapper.Name != wrapperName(resource, key):
		return "", nil, fmt.Errorf("key %q does not match the name", key)
	}
	return key, []byte(object), nil
}

// wrapperName returns the name of the wrapper of a key. Keys are hashed because
// they can be longer than a name and contain other characters.
func wrapperName(resource schema.GroupResource, key string) string {
	return resource.String() + "-" + hash(key)
}

// namespaceOf returns the first segment of a key below its resource prefix, or
// "" if the key has only one.
func namespaceOf(resourcePrefix, key string) string {
	namespace, _, found := strings.Cut(strings.TrimPrefix(key, resourcePrefix), "/")
	if !found {
		return ""
	}
	return namespace
}

// selector returns the selector of wrappers that corresponds to selectors of
// objects in a namespace, or in all namespaces if namespace is empty.
func selector(resource schema.GroupResource, namespace string, label labels.Selector, field fields.Selector) (labels.Selector, error) {
	required := []labels.Requirement{}
	add := func(key string, op selection.Operator, values ...string) error {
		requirement, err := labels.NewRequirement(key, op, values)
		if err == nil {
			required = append(required, *requirement)
		}
		return err
	}
	if err := add(ResourceLabel, selection.Equals, resource.String()); err != nil {
		return nil, err
	}
	if namespace != "" {
		if err := add(NamespaceLabel, selection.Equals, labelValue(namespace)); err != nil {
			return nil, err
		}
	}
	if label != nil {
		// labels.Nothing has no requirements, and cannot be expressed in a request: the
		// predicate excludes the objects that are returned.
		requirements, _ := label.Requirements()
		for _, r := range requirements {
			values := r.ValuesUnsorted()
			for i := range values {
				values[i] = labelValue(values[i])
			}
			if err := add(objectLabel(r.Key()), r.Operator(), values...); err != nil {
				return nil, err
			}
		}
	}
	if field != nil {
		for _, r := range field.Requirements() {
			var err error
			switch r.Field {
			case nameField:
			case namespaceField:
				err = add(NamespaceLabel, r.Operator, labelValue(r.Value))
			default:
				err = add(objectField(r.Field), r.Operator, hash(r.Value))
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return labels.NewSelector().Add(required...), nil
}

func objectLabel(key string) string { return objectLabelPrefix + hash(key) }
func objectField(key string) string { return objectFieldPrefix + hash(key) }

// labelValue returns text if it is a valid label value, and otherwise its hash.
func labelValue(text string) string {
	if len(validation.IsValidLabelValue(text)) == 0 {
		return text
	}
	return hash(text)
}

var encoding = base32.HexEncoding.WithPadding(base32.NoPadding)

// hash returns 32 characters that are valid in names and in labels.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(encoding.EncodeToString(sum[:20]))
}
