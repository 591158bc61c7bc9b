// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"strconv"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// client watches a resource of a cluster.
type client struct {
	*cluster
	resource *resource
	name     string
	open     bool
	// delivered is the number of events that the client knows.
	delivered int
	bookmarks bool
}

// list begins a watch with a list.
func (c *client) list() {
	c.open, c.delivered = true, len(c.resource.events)
	c.record(history.Entry{Watch: c.resource.listed(c.cluster.name, c.name)})
	if !c.bookmarks {
		c.bookmarks = true
		c.every(3*time.Second, 8*time.Second, c.bookmark)
		c.every(10*time.Second, 30*time.Second, c.close)
	}
}

// resume goes on where the last watch ended.
func (c *client) resume() {
	c.open = true
	c.recordWatch(history.Watch{Type: history.Resumed, ResourceVersion: strconv.Itoa(c.version())})
	c.deliver()
}

// version returns the version of the last event that the client knows, or of the list.
func (c *client) version() int { return 1000 + 10*c.delivered }

// close ends the watch, and begins another one soon.
func (c *client) close() {
	if !c.open || c.stopped {
		return
	}
	c.open = false
	c.recordWatch(history.Watch{Type: history.Closed})
	var reopen func()
	reopen = func() {
		switch {
		case c.disturbed(c.cluster.name, c.cluster.name):
			c.after(c.between(100*time.Millisecond, time.Second), reopen)
		case c.chance(50):
			c.resume()
		default:
			c.list()
		}
	}
	c.after(c.between(50*time.Millisecond, time.Second), reopen)
}

func (c *client) bookmark() {
	if c.open {
		c.recordWatch(history.Watch{Type: history.Bookmark, ResourceVersion: strconv.Itoa(c.version())})
	}
}

// deliver sends all events that the client does not know.
func (c *client) deliver() {
	for c.open && c.delivered < len(c.resource.events) {
		event := c.resource.events[c.delivered]
		c.delivered++
		c.recordWatch(event)
	}
}

func (c *client) recordWatch(watch history.Watch) {
	watch.Cluster, watch.Resource, watch.Client = c.cluster.name, c.resource.name, c.name
	c.record(history.Entry{Watch: &watch})
}
