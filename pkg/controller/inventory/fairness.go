// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// A member decides what is in its profile, and a hub which clusters have one, as often as they are
// asked. Every write is kept for minutes where it is stored.
const (
	// writeInterval is the minimum time between two writes of a profile.
	writeInterval = 10 * time.Second
	// relayedRate is how many profiles of clusters that one hub relays are created or deleted
	// per second, and relayedBurst how many at once.
	relayedRate  = 10
	relayedBurst = 100
	// gathering is the minimum time between two looks at all profiles.
	gathering = time.Second
)

// hub returns the hub that relays a cluster, or relayed the one that has no Member any more,
// empty if none does.
func (c *Controller) hub(name string) string {
	if entry, err := c.members.Get(name); err == nil {
		if path := entry.Status.Path; len(path) > 0 {
			return path[len(path)-1]
		}
		return ""
	}
	if profile, err := c.profiles.ClusterProfiles(c.namespace).Get(name); err == nil {
		return profile.Annotations[clusterset.RelayedByAnnotation]
	}
	return ""
}

// source returns what a profile is attributed to: a hub, or the cluster itself.
func (c *Controller) source(key types.NamespacedName) string {
	if hub := c.hub(key.Name); hub != "" {
		return hub
	}
	return key.Name
}

// mayWrite reports whether a profile may be written now; otherwise it is looked at again.
func (c *Controller) mayWrite(name string) bool {
	wait := c.writes.Take(name)
	if wait > 0 {
		c.queue.AddAfter(types.NamespacedName{Name: name}, wait)
	}
	return wait == 0
}

// mayReplace reports whether a profile may be created or deleted now; otherwise it is looked at
// again.
func (c *Controller) mayReplace(name string) bool {
	hub := c.hub(name)
	if hub == "" || c.relayed.Take(hub) == 0 {
		return true
	}
	// All profiles of the hub would be looked at for each that may be written.
	c.queue.AddAfter(types.NamespacedName{Name: name}, writeInterval)
	return false
}
