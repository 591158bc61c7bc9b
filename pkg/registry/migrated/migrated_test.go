// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrated

import (
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

const oldUID, newUID = types.UID("0a1b2c3d-0000-4000-8000-0123456789ab"), types.UID("new")

var (
	now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	old = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
)

// R470: an object is created with the UID and the creation time of its annotation.
func TestIdentityIsTaken(t *testing.T) {
	for _, test := range []struct {
		name, annotation string
		uid              types.UID
		created          time.Time
		invalid          bool
	}{
		{"no annotation", "", newUID, now, false},
		{"identity", multicluster.MigratedFrom{UID: oldUID, CreationTimestamp: metav1.NewTime(old)}.String(), oldUID, old, false},
		{"time only", multicluster.MigratedFrom{CreationTimestamp: metav1.NewTime(old)}.String(), newUID, old, false},
		{"invalid", "yesterday", newUID, now, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			object := &metav1.ObjectMeta{UID: newUID, CreationTimestamp: metav1.NewTime(now)}
			if test.annotation != "" {
				object.Annotations = map[string]string{multicluster.MigratedFromAnnotation: test.annotation}
			}
			TakeIdentity(object, now)
			if object.UID != test.uid || !object.CreationTimestamp.Time.Equal(test.created) {
				t.Errorf("got UID %s and creation time %s, want %s and %s", object.UID, object.CreationTimestamp, test.uid, test.created)
			}
			if errs := Validate(object, now); len(errs) > 0 != test.invalid {
				t.Errorf("got errors %v, want any: %t", errs, test.invalid)
			}
		})
	}
}

// R470: the server owns the annotation of existing objects.
func TestIdentityIsKept(t *testing.T) {
	const key = multicluster.MigratedFromAnnotation
	for _, test := range []struct {
		name                 string
		before, update, want map[string]string
	}{
		{"removed", map[string]string{key: "a"}, nil, map[string]string{key: "a"}},
		{"changed", map[string]string{key: "a"}, map[string]string{key: "b", "x": "y"}, map[string]string{key: "a", "x": "y"}},
		{"added", map[string]string{"x": "y"}, map[string]string{key: "b", "x": "z"}, map[string]string{"x": "z"}},
		{"same", map[string]string{key: "a"}, map[string]string{key: "a"}, map[string]string{key: "a"}},
		{"none", nil, map[string]string{"x": "y"}, map[string]string{"x": "y"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			object := &metav1.ObjectMeta{Annotations: test.update}
			KeepIdentity(object, &metav1.ObjectMeta{Annotations: test.before})
			if !maps.Equal(object.Annotations, test.want) {
				t.Errorf("got %v, want %v", object.Annotations, test.want)
			}
		})
	}
}
