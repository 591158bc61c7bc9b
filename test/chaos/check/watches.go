// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// compareVersions compares resourceVersions, which are decimal numbers of any size.
func compareVersions(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// stream is a watch, from a list or another watch on.
type stream struct {
	*client
	events []history.Entry
}

// checkWatches checks that no watch went back or missed an event.
func (c *checker) checkWatches() {
	streams := map[[2]string][]stream{}
	for _, client := range c.clients {
		c.checkVersions(client)
		c.checkSequence(client)
		of := [2]string{client.cluster, client.resource}
		streams[of] = append(streams[of], client.streams()...)
	}
	for _, streams := range streams {
		for i, a := range streams {
			for _, b := range streams[i+1:] {
				if a.client != b.client {
					c.compare(a, b)
					c.compare(b, a)
				}
			}
		}
	}
}

// checkVersions checks that versions increase from a list on, and from watch to watch if one
// resumes another.
func (c *checker) checkVersions(client *client) {
	var last history.Entry
	for _, entry := range client.entries {
		w := entry.Watch
		if w.Type == history.Closed || w.ResourceVersion == "" {
			continue
		}
		if w.Type == history.Listed || last.Watch == nil {
			last = entry
			continue
		}
		difference := compareVersions(w.ResourceVersion, last.Watch.ResourceVersion)
		// Bookmarks and resumed watches repeat a version. So do several events of one write.
		repeats := w.Object == nil || last.Watch.Object != nil && keyOf(*w.Object) != keyOf(*last.Watch.Object)
		if difference < 0 || difference == 0 && !repeats {
			c.add(Violation{
				Kind: VersionWentBack, Cluster: client.cluster, At: entry.At, Subject: client.resource, Lines: []int{last.Line, entry.Line},
				Message: fmt.Sprintf("client %s saw version %s after %s", client.name, w.ResourceVersion, last.Watch.ResourceVersion),
			})
		}
		last = entry
	}
}

// checkSequence checks that objects are added before they change, and once only.
func (c *checker) checkSequence(client *client) {
	objects := map[key]int{}
	for _, entry := range client.entries {
		w := entry.Watch
		if w.Type == history.Listed {
			clear(objects)
			for _, object := range w.Items {
				objects[keyOf(object)] = entry.Line
			}
			continue
		}
		if w.Object == nil {
			continue
		}
		line, exists := objects[keyOf(*w.Object)]
		if exists != (w.Type != history.Added) {
			c.add(Violation{
				Kind: MissedEvent, Cluster: client.cluster, At: entry.At, Subject: objectName(client, *w.Object), Lines: []int{line, entry.Line},
				Message: fmt.Sprintf("client %s saw %s although the object %s", client.name, w.Type, map[bool]string{true: "existed", false: "did not exist"}[exists]),
			})
		}
		if objects[keyOf(*w.Object)] = entry.Line; w.Type == history.Deleted {
			delete(objects, keyOf(*w.Object))
		}
	}
}

func objectName(client *client, object history.Object) string {
	return client.resource + " " + object.Namespace + "/" + object.Name
}

// streams returns the watches of a client. One that resumes another is part of it.
func (c *client) streams() []stream {
	var streams []stream
	for _, entry := range c.entries {
		switch {
		case entry.Watch.Type == history.Listed:
			streams = append(streams, stream{client: c})
		case entry.Watch.Object != nil && len(streams) > 0:
			last := &streams[len(streams)-1]
			last.events = append(last.events, entry)
		}
	}
	return slices.DeleteFunc(streams, func(s stream) bool { return len(s.events) < 2 })
}

// compare checks that a watch has all events of another between two events that both have: then
// both are of the same server, and versions identify events.
func (c *checker) compare(a, b stream) {
	versions := map[string]bool{}
	for _, entry := range a.events {
		versions[entry.Watch.ResourceVersion] = true
	}
	var common, missing []history.Entry
	for _, entry := range b.events {
		switch {
		case versions[entry.Watch.ResourceVersion]:
			if common = append(common, entry); len(common) > 1 {
				for _, missed := range missing {
					c.add(Violation{
						Kind: MissedEvent, Cluster: a.cluster, At: missed.At, Subject: objectName(a.client, *missed.Watch.Object), Lines: []int{common[len(common)-2].Line, missed.Line, entry.Line},
						Message: fmt.Sprintf("client %s did not see %s of version %s, which client %s saw", a.name, missed.Watch.Type, missed.Watch.ResourceVersion, b.name),
					})
				}
			}
			missing = nil
		case len(common) > 0:
			missing = append(missing, entry)
		}
	}
}
