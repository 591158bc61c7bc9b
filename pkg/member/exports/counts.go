// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"maps"
	"sync"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// Share is a part of what a cluster exports, all of which is for the same clusters. The zero
// value is nothing.
type Share struct {
	Exports, Endpoints int32
	// audience is nil if it is for all clusters.
	audience *clusterset.Audience
}

// NewShare returns a share that is for an audience, nil for all clusters.
func NewShare(audience *clusterset.Audience, exports, endpoints int32) Share {
	return Share{exports, endpoints, audience}
}

// Equal reports whether two shares are the same.
func (s Share) Equal(other Share) bool {
	return s.Exports == other.Exports && s.Endpoints == other.Endpoints && s.audience.Same(other.audience)
}

// Counts are how many Services and endpoints a cluster exports, and for which clusters. They
// are changed in place, in a time that does not depend on how many audiences there are, and
// are safe for concurrent use. Nil is nothing.
type Counts struct {
	mu sync.RWMutex
	// exports and endpoints are the totals.
	exports, endpoints int32
	// restricted are the parts that have an audience; nil until there is one.
	restricted map[clusterset.Audience]Share
}

// Total returns how much there is.
func (c *Counts) Total() (exports, endpoints int32) {
	if c == nil {
		return 0, 0
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.exports, c.endpoints
}

// VisibleTo returns how much of it a cluster may read.
func (c *Counts) VisibleTo(cluster string) (exports, endpoints int32) {
	if c == nil {
		return 0, 0
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	exports, endpoints = c.exports, c.endpoints
	for _, restricted := range c.restricted {
		if !restricted.audience.Includes(cluster) {
			exports, endpoints = exports-restricted.Exports, endpoints-restricted.Endpoints
		}
	}
	return exports, endpoints
}

// Replace replaces a share that was added before by another one, of which either may be zero.
// Nobody sees the counts without both.
func (c *Counts) Replace(before, now Share) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addLocked(before, -1)
	c.addLocked(now, 1)
}

func (c *Counts) addLocked(share Share, times int32) {
	c.exports += times * share.Exports
	c.endpoints += times * share.Endpoints
	if share.audience == nil || share.Exports == 0 && share.Endpoints == 0 {
		return
	}
	key := *share.audience
	counted, known := c.restricted[key]
	if !known {
		counted.audience = share.audience
	}
	counted.Exports += times * share.Exports
	counted.Endpoints += times * share.Endpoints
	switch {
	case counted.Exports == 0 && counted.Endpoints == 0:
		delete(c.restricted, key)
		return
	case c.restricted == nil:
		c.restricted = map[clusterset.Audience]Share{}
	}
	c.restricted[key] = counted
}

// clone returns a copy that can be changed without affecting the original.
func (c *Counts) clone() *Counts {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return &Counts{exports: c.exports, endpoints: c.endpoints, restricted: maps.Clone(c.restricted)}
}
