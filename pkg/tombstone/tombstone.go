// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tombstone handles the tombstones that informers deliver for objects
// whose deletion they missed.
package tombstone

import "k8s.io/client-go/tools/cache"

// Unwrap returns the last known state of an object that an informer reports as
// deleted. An informer that missed the deletion itself delivers a
// cache.DeletedFinalStateUnknown, which wraps the object; any other object is
// returned unchanged.
func Unwrap(object any) any {
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		return unknown.Obj
	}
	return object
}
