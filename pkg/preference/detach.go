// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package preference

import (
	"slices"
	"time"
)

// Detachment decides which imported EndpointSlices of a service get the label of headless
// Services, so that kube-proxy does not use them: those of clusters that are not in the active tier.
// A slice with a port for which the tier does not have enough ready endpoints stays: a label
// concerns all ports of a slice, and a port that answers from anywhere is better than one that
// does not answer.
//
// Unlike with hints, kube-proxy does not use detached slices by itself if all endpoints of the tier
// fail. Until their labels are removed, the service does not answer. So they are to be removed before
// the tier loses its endpoints, and set after it has had enough for TakeoverDelay: endpoints that come
// and go should not change the slices of other clusters each time.
type Detachment struct {
	inTier   func(cluster string) bool
	minReady int
	ready    map[string]int // in the tier, by port
	// lacked are the ports of which the tier has had too few ready endpoints within TakeoverDelay.
	lacked map[string]time.Time
}

// NewDetachment returns how slices with some of the given ports are detached. ready is how many
// endpoints are ready by cluster and port, of those which kube-proxy has, and keeps. lacked is what
// Lacked returned before, nil if nothing is known.
func NewDetachment(inTier func(cluster string) bool, minReady int32, ports []string, ready map[string]map[string]int, lacked map[string]time.Time, now time.Time) Detachment {
	detachment := Detachment{inTier: inTier, minReady: max(1, int(minReady)), ready: map[string]int{}, lacked: map[string]time.Time{}}
	for cluster, ports := range ready {
		if !inTier(cluster) {
			continue
		}
		for port, count := range ports {
			detachment.ready[port] += count
		}
	}
	for _, port := range ports {
		if detachment.lacks(port) {
			detachment.lacked[port] = now
		} else if last, found := lacked[port]; found && now.Sub(last) < TakeoverDelay {
			detachment.lacked[port] = last
		}
	}
	return detachment
}

func (d Detachment) lacks(port string) bool { return d.ready[port] < d.minReady }

// Detaches reports whether a slice of a cluster with these ports is detached, given whether it is
// now.
func (d Detachment) Detaches(cluster string, ports []string, now bool) bool {
	stays := func(port string) bool {
		_, lacked := d.lacked[port]
		return d.lacks(port) || lacked && !now
	}
	return !d.inTier(cluster) && !slices.ContainsFunc(ports, stays)
}

// Lacked returns when the tier last had too few ready endpoints of a port, if that was within
// TakeoverDelay, and how long it takes until slices may be detached because of a port that it has
// enough of; zero if there is none.
func (d Detachment) Lacked(now time.Time) (lacked map[string]time.Time, wait time.Duration) {
	for port, last := range d.lacked {
		if remaining := last.Add(TakeoverDelay).Sub(now); !d.lacks(port) && (wait == 0 || remaining < wait) {
			wait = remaining
		}
	}
	return d.lacked, wait
}
