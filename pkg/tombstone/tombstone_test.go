// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package tombstone

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

func TestUnwrapReturnsTheLastKnownState(t *testing.T) {
	service := &corev1.Service{}
	if got := Unwrap(service); got != service {
		t.Errorf("Unwrap of an object returned %v", got)
	}
	if got := Unwrap(cache.DeletedFinalStateUnknown{Key: "default/web", Obj: service}); got != service {
		t.Errorf("Unwrap of a tombstone returned %v", got)
	}
}
