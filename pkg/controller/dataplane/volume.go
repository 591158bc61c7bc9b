// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// volumePerSecond is how many bytes of EndpointSlices and derived Services are written per
	// second because of one member, and volumeBurst how many at once: the host keeps all of
	// them for minutes, and every node receives them. All that a member exports by default
	// fits into a burst.
	volumePerSecond = 1 << 20
	volumeBurst     = 64 << 20
)

// affordable returns the changes of a key that may be written now: all of them, or only
// deletions, because what is withdrawn must not be used any longer, and takes no space. For
// the others, the key is enqueued again when it is its turn, with its state at that time.
// Slices that replace others of another form have a limit of their own: it is the namespace
// that asks for them, and what the member changes must not wait for them.
func (c *Controller) affordable(key key, changes []sliceChange) []sliceChange {
	deletions, others, bytes, replacing := 0, 0, 0, 0
	for _, change := range changes { // deletions are the first, replacements the last
		switch {
		case change.isDeletion():
			deletions++
		case change.verb == replaceSlice:
			replacing += change.slice.Size()
			continue
		default:
			bytes += change.slice.Size()
		}
		others++
	}
	member := c.cause(key)
	switch {
	case !c.isTurn(key, key, member, bytes):
		return changes[:deletions]
	case !c.isTurn(key, ofForm(key), member+formSuffix, replacing):
		return changes[:others]
	}
	return changes
}

// formSuffix makes another account of a member. It cannot be a part of a cluster ID.
const formSuffix = "/form"

// ofForm returns the key of the turn in which slices are replaced by those of another form.
func ofForm(of key) key { return key{of.NamespacedName, of.cluster + formSuffix} }

// isTurn reports whether a number of bytes may be written now. Otherwise the key is enqueued
// again when they may.
func (c *Controller) isTurn(key, turn key, account string, bytes int) bool {
	if bytes == 0 {
		c.volume.End(turn) // what waited for its turn is gone
		return true
	}
	wait := c.volume.Wait(turn, []string{account}, bytes)
	if wait > 0 {
		c.queue.AddAfter(key, wait)
	}
	return wait == 0
}

// endTurns ends the turns in which changes are written.
func (c *Controller) endTurns(key key, changes []sliceChange) {
	switch changes[len(changes)-1].verb {
	case deleteSlice, retireSlice: // do not wait for a turn
	case replaceSlice:
		c.volume.End(ofForm(key))
		c.volume.End(key)
	case updateSlice, createSlice:
		c.volume.End(key)
	}
}

const (
	// managedPort is about how many bytes the host adds for each port of a Service, to keep
	// track of who manages its fields. The cache does not hold them.
	managedPort = 130
	// A Service with many ports costs its host far more time than its bytes would: one with
	// 256 ports takes it about 50 milliseconds. Each port beyond usualPorts counts as much as
	// portVolume bytes.
	usualPorts = 16
	portVolume = 8 << 10
)

// serviceVolume returns how many bytes it counts as that a derived Service is written.
func serviceVolume(service *corev1.Service) int {
	ports := len(service.Spec.Ports)
	return service.Size() + managedPort*ports + portVolume*max(0, ports-usualPorts)
}

// affordableService reports whether the derived Service of an import may be written now.
// Otherwise its key is enqueued again when it is its turn. One that several members export is
// written because of those that changed what they export, as soon as it is the turn of one of
// them: none can delay what another changes.
func (c *Controller) affordableService(name types.NamespacedName, service *corev1.Service) bool {
	of := ofService(name)
	members, wait := c.contributions.causes(name)
	if wait == 0 {
		wait = c.volume.Wait(of, members, serviceVolume(service))
	}
	if wait > 0 {
		c.queue.AddAfter(of, wait)
	}
	return wait == 0
}
