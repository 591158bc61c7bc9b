// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// versioner reads and writes resource versions of objects.
var versioner = storage.APIObjectVersioner{}

// converter converts objects of one resource to and from their wrappers.
type converter struct {
	Config
	decoded decodedObjects
}

// wrapper returns the wrapper of an object, which replaces an existing one unless that is nil. It
// returns 413 for an object whose labels make it too large for the etcd of the host.
func (c converter) wrapper(key string, existing *state, obj runtime.Object, data []byte) (*corev1.ConfigMap, error) {
	labels, fields, err := c.Attributes(obj)
	if err != nil {
		return nil, fmt.Errorf("read labels and fields of %s: %w", key, err)
	}
	wrapper := wrap(wrapping{
		resource: c.Resource, key: key, namespace: namespaceOf(c.ResourcePrefix, key),
		labels: labels, fields: fields, data: data,
	})
	if existing != nil {
		replace(wrapper, existing.wrapper)
	}
	if size := storedSize(wrapper); size > maxWrapperBytes {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"%s %s is too large: %d bytes with its %d labels, limit %d bytes; remove labels", c.Resource, key, size, len(wrapper.Labels), maxWrapperBytes))
	}
	return wrapper, nil
}

// encode returns 413 for an object that exceeds the size limit of a ConfigMap.
func (c converter) encode(key string, obj runtime.Object) ([]byte, error) {
	data, err := runtime.Encode(c.Codec, obj)
	if err != nil {
		return nil, err
	}
	if len(data) > maxObjectBytes {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"%s %s is too large: %d bytes, limit %d bytes; remove labels, annotations or managed fields", c.Resource, key, len(data), maxObjectBytes))
	}
	return data, nil
}

// decode decodes the object of a wrapper into out.
func (c converter) decode(wrapper *corev1.ConfigMap, key string, data []byte, out runtime.Object) error {
	err := c.decodeInto(wrapper.Name, data, out)
	if err == nil {
		var version uint64
		if version, err = versioner.ParseResourceVersion(wrapper.ResourceVersion); err == nil {
			err = versioner.UpdateObject(out, version)
		}
	}
	if err != nil {
		return c.corrupt(wrapper, fmt.Errorf("decode %s: %w", key, err))
	}
	return nil
}

// decodeInto decodes data, unless the same data was decoded for this wrapper before.
func (c converter) decodeInto(name string, data []byte, out runtime.Object) error {
	if decoded := c.decoded.get(name, string(data)); decoded != nil {
		reflect.ValueOf(out).Elem().Set(reflect.ValueOf(decoded).Elem())
		return nil
	}
	decoded, _, err := c.Codec.Decode(data, nil, out)
	if err != nil {
		return err
	}
	if decoded != out {
		return fmt.Errorf("decoded a %T instead of a %T", decoded, out)
	}
	c.decoded.put(name, string(data), out)
	return nil
}

// corrupt returns the error for a wrapper that cannot be read. The object is
// unknown, not absent.
func (c converter) corrupt(wrapper *corev1.ConfigMap, err error) error {
	return storage.NewInternalError(fmt.Errorf("ConfigMap %s/%s with an object of %s is invalid: %w; restore the ConfigMap from a backup, or delete it to delete the object",
		c.Namespace, wrapper.Name, c.Resource, err))
}

func (c converter) unwrapInto(wrapper *corev1.ConfigMap, out runtime.Object) (key string, _ error) {
	key, data, err := unwrap(c.Resource, wrapper)
	if err != nil {
		return "", c.corrupt(wrapper, err)
	}
	return key, c.decode(wrapper, key, data, out)
}

// decodeAll returns the objects that match the request, sorted by key.
func (c converter) decodeAll(wrappers []corev1.ConfigMap, key string, opts storage.ListOptions) ([]runtime.Object, error) {
	type entry struct {
		key    string
		object runtime.Object
	}
	entries := make([]entry, 0, len(wrappers))
	for i := range wrappers {
		object := c.NewFunc()
		itsKey, err := c.unwrapInto(&wrappers[i], object)
		if err != nil {
			return nil, err
		}
		if !within(key, itsKey, opts.Recursive) {
			continue
		}
		if matches, err := opts.Predicate.Matches(object); err == nil && matches {
			entries = append(entries, entry{itsKey, object})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	objects := make([]runtime.Object, 0, len(entries))
	for _, e := range entries {
		objects = append(objects, e.object)
	}
	return objects, nil
}
