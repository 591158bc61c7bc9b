// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package encoded

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// All methods that set metadata do so in content of their own.

// SetNamespace implements metav1.Object.
func (o *Object) SetNamespace(namespace string) { o.own().SetNamespace(namespace) }

// SetName implements metav1.Object.
func (o *Object) SetName(name string) { o.own().SetName(name) }

// SetGenerateName implements metav1.Object.
func (o *Object) SetGenerateName(name string) { o.own().SetGenerateName(name) }

// SetUID implements metav1.Object.
func (o *Object) SetUID(uid types.UID) { o.own().SetUID(uid) }

// SetResourceVersion implements metav1.Object.
func (o *Object) SetResourceVersion(version string) { o.own().SetResourceVersion(version) }

// SetGeneration implements metav1.Object.
func (o *Object) SetGeneration(generation int64) { o.own().SetGeneration(generation) }

// SetSelfLink implements metav1.Object.
func (o *Object) SetSelfLink(selfLink string) { o.own().SetSelfLink(selfLink) }

// SetCreationTimestamp implements metav1.Object.
func (o *Object) SetCreationTimestamp(timestamp metav1.Time) {
	o.own().SetCreationTimestamp(timestamp)
}

// SetDeletionTimestamp implements metav1.Object.
func (o *Object) SetDeletionTimestamp(timestamp *metav1.Time) {
	o.own().SetDeletionTimestamp(timestamp)
}

// SetDeletionGracePeriodSeconds implements metav1.Object.
func (o *Object) SetDeletionGracePeriodSeconds(seconds *int64) {
	o.own().SetDeletionGracePeriodSeconds(seconds)
}

// SetLabels implements metav1.Object.
func (o *Object) SetLabels(labels map[string]string) { o.own().SetLabels(labels) }

// SetAnnotations implements metav1.Object.
func (o *Object) SetAnnotations(annotations map[string]string) { o.own().SetAnnotations(annotations) }

// SetFinalizers implements metav1.Object.
func (o *Object) SetFinalizers(finalizers []string) { o.own().SetFinalizers(finalizers) }

// SetOwnerReferences implements metav1.Object.
func (o *Object) SetOwnerReferences(references []metav1.OwnerReference) {
	o.own().SetOwnerReferences(references)
}

// SetManagedFields implements metav1.Object.
func (o *Object) SetManagedFields(fields []metav1.ManagedFieldsEntry) {
	o.own().SetManagedFields(fields)
}
