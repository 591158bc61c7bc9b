// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migrated gives objects the identity that they had before mcs-apiserver took them
// over: ages decide about precedence, and owner references have UIDs. Who may do that is
// decided by the admission plugin Migration.
package migrated

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

// TakeIdentity gives an object that is being created the UID and the creation time of its
// annotation, if it has a valid one.
func TakeIdentity(object metav1.Object, now time.Time) {
	value, ok := object.GetAnnotations()[multicluster.MigratedFromAnnotation]
	if !ok {
		return
	}
	from, err := multicluster.ParseMigratedFrom(value, now)
	if err != nil {
		return // validation refuses it
	}
	object.SetCreationTimestamp(from.CreationTimestamp)
	if from.UID != "" {
		object.SetUID(from.UID)
	}
}

// KeepIdentity restores the annotation of an object that is being updated: the server owns it.
func KeepIdentity(object, old metav1.Object) {
	annotations := object.GetAnnotations()
	value, migrated := old.GetAnnotations()[multicluster.MigratedFromAnnotation]
	switch current, ok := annotations[multicluster.MigratedFromAnnotation]; {
	case !migrated && ok:
		delete(annotations, multicluster.MigratedFromAnnotation)
	case migrated && current != value:
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[multicluster.MigratedFromAnnotation] = value
	default:
		return
	}
	object.SetAnnotations(annotations)
}

// Validate validates the annotation of an object that is being created.
func Validate(object metav1.Object, now time.Time) field.ErrorList {
	value, ok := object.GetAnnotations()[multicluster.MigratedFromAnnotation]
	if !ok {
		return nil
	}
	if _, err := multicluster.ParseMigratedFrom(value, now); err != nil {
		return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations").Key(multicluster.MigratedFromAnnotation), value, err.Error())}
	}
	return nil
}
