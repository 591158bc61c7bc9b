// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/lru"
)

const (
	// maxHeld is the number of wrappers that are held, and maxHeldBytes the size of all of
	// them. Typical wrappers have 2 KiB.
	maxHeld      = 10_000
	maxHeldBytes = 16 << 20
)

// heldWrappers holds the wrappers that were written last, by this replica or, as far as it
// watches them, by another one. What was written is likely to be written again: the status
// after an object, and a record after the last one. It can be replaced without reading it first,
// because the host refuses to replace another version. It is safe for concurrent use.
type heldWrappers struct {
	mu     sync.Mutex
	byName *lru.Cache
	bytes  int
}

func newHeldWrappers() *heldWrappers {
	h := &heldWrappers{}
	h.byName = lru.NewWithEvictionFunc(maxHeld, func(_ lru.Key, evicted any) { h.bytes -= heldSize(evicted.(*corev1.ConfigMap)) })
	return h
}

// heldSize is about how many bytes a held wrapper takes.
func heldSize(wrapper *corev1.ConfigMap) int { return len(wrapper.Data[objectData]) + 512 }

// get returns the newest known version of a wrapper, or nil. It must not be changed.
func (h *heldWrappers) get(name string) *corev1.ConfigMap {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held, ok := h.byName.Get(name); ok {
		return held.(*corev1.ConfigMap)
	}
	return nil
}

// put holds a wrapper, unless a newer version of it is held.
func (h *heldWrappers) put(wrapper *corev1.ConfigMap) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before, ok := h.byName.Get(wrapper.Name); ok && older(wrapper, before.(*corev1.ConfigMap)) {
		return
	}
	h.byName.Remove(wrapper.Name) // replacing it would not call the eviction function
	held := *wrapper
	held.ManagedFields, held.Labels = nil, nil // not needed, and maybe larger than the rest
	h.byName.Add(held.Name, &held)
	h.bytes += heldSize(&held)
	for h.bytes > maxHeldBytes {
		h.byName.RemoveOldest()
	}
}

// remove forgets a wrapper.
func (h *heldWrappers) remove(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.byName.Remove(name)
}

// older reports whether one version of a wrapper is older than another.
func older(one, other *corev1.ConfigMap) bool {
	version, err := versioner.ParseResourceVersion(one.ResourceVersion)
	if err != nil {
		return true
	}
	after, err := versioner.ParseResourceVersion(other.ResourceVersion)
	return err == nil && version < after
}
