// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/model"
)

// key names an object of a client.
type key struct{ namespace, name string }

func keyOf(object history.Object) key { return key{object.Namespace, object.Name} }

// subject is what a client sees or does not see: an import if the source is empty, or an
// endpoint of a source cluster.
type subject struct {
	history.Service
	source, address string
}

func (s subject) String() string {
	if s.source == "" {
		return "import " + s.Service.String()
	}
	return "endpoint " + s.address + " of " + s.Service.String() + " from " + s.source
}

// client is what one client of the API saw: the objects at any time.
type client struct {
	cluster, resource, name string
	// entries are the lines of the client.
	entries []history.Entry

	objects map[key]history.Object
	// knows is since when the client knows all objects; zero while it knows nothing.
	knows time.Time
	// known is when the client knew all objects, and seen when each subject was among them.
	known []model.Span
	seen  map[subject]*sight
	// lists is how often the client has listed.
	lists int
	// uids are the UIDs of imports, in the order in which they were seen.
	uids []sighting
	// addressed is since when imports have had what DNS answers with.
	addressed map[key]*sight
}

// sight is when a client saw a subject.
type sight struct {
	since time.Time
	spans []model.Span
	// lines are those at which it appeared and disappeared, by time.
	lines map[time.Time]int
}

// sighting is an import that was seen.
type sighting struct {
	object history.Object
	at     time.Time
	line   int
	gone   bool
	// lists is how often the client had listed: after another list, it may watch another server.
	lists int
}

// subjects returns the subjects of objects.
func subjects(objects map[key]history.Object) map[subject]bool {
	found := map[subject]bool{}
	for key, object := range objects {
		if object.Import != nil {
			found[subject{Service: history.Service{Namespace: key.namespace, Name: key.name}}] = true
		}
		if object.Slice != nil {
			for _, address := range object.Slice.Addresses {
				found[subject{history.Service{Namespace: key.namespace, Name: object.Slice.Service}, object.Slice.Cluster, address}] = true
			}
		}
	}
	return found
}

// replay returns what all clients saw.
func replay(entries []history.Entry) []*client {
	byName := map[[3]string]*client{}
	var clients []*client
	for _, entry := range entries {
		w := entry.Watch
		if w == nil {
			continue
		}
		name := [3]string{w.Cluster, w.Resource, w.Client}
		if byName[name] == nil {
			byName[name] = &client{
				cluster: w.Cluster, resource: w.Resource, name: w.Client, objects: map[key]history.Object{}, seen: map[subject]*sight{},
				addressed: map[key]*sight{},
			}
			clients = append(clients, byName[name])
		}
		byName[name].add(entry)
	}
	end := entries[len(entries)-1].At
	for _, client := range clients {
		client.forget(end)
	}
	return clients
}

// add adds a line.
func (c *client) add(entry history.Entry) {
	c.entries = append(c.entries, entry)
	w := entry.Watch
	switch w.Type {
	case history.Listed:
		c.lists++
		c.forget(entry.At)
		c.objects = map[key]history.Object{}
		for _, object := range w.Items {
			c.objects[keyOf(object)] = object
			c.sawUID(object, entry, false)
		}
		c.learn(entry)
	case history.Resumed:
		c.learn(entry)
	case history.Closed:
		c.forget(entry.At)
	case history.Added, history.Modified:
		c.objects[keyOf(*w.Object)] = *w.Object
		c.sawUID(*w.Object, entry, false)
		c.update(entry)
	case history.Deleted:
		delete(c.objects, keyOf(*w.Object))
		c.sawUID(*w.Object, entry, true)
		c.update(entry)
	}
}

func (c *client) sawUID(object history.Object, entry history.Entry, gone bool) {
	if object.Import != nil {
		c.uids = append(c.uids, sighting{object, entry.At, entry.Line, gone, c.lists})
	}
}

// learn begins to know all objects.
func (c *client) learn(entry history.Entry) {
	c.forget(entry.At)
	c.knows = entry.At
	c.update(entry)
}

// update compares what is seen with what was seen until now.
func (c *client) update(entry history.Entry) {
	now := subjects(c.objects)
	for s := range now {
		if c.seen[s] == nil {
			c.seen[s] = &sight{lines: map[time.Time]int{}}
		}
		if sight := c.seen[s]; sight.since.IsZero() {
			sight.since = entry.At
			sight.lines[entry.At] = entry.Line
		}
	}
	for s, sight := range c.seen {
		if !now[s] && !sight.since.IsZero() {
			sight.end(entry.At)
			sight.lines[entry.At] = entry.Line
		}
	}
	c.updateTypes(entry.At)
}

// updateTypes notes which imports are headless, and which have addresses.
func (c *client) updateTypes(at time.Time) {
	for key, object := range c.objects {
		if object.Import == nil {
			continue
		}
		if c.addressed[key] == nil {
			c.addressed[key] = &sight{}
		}
		sight, has := c.addressed[key], object.Import.Headless || len(object.Import.IPs) > 0
		switch {
		case has && sight.since.IsZero():
			sight.since = at
		case !has && !sight.since.IsZero():
			sight.end(at)
		}
	}
	for key, sight := range c.addressed {
		if _, exists := c.objects[key]; !exists && !sight.since.IsZero() {
			sight.end(at)
		}
	}
}

func (s *sight) end(at time.Time) {
	s.spans = append(s.spans, model.Span{From: s.since, To: at})
	s.since = time.Time{}
}

// forget ends what the client knows.
func (c *client) forget(at time.Time) {
	if c.knows.IsZero() {
		return
	}
	// A list that is not followed by a watch is of one moment.
	if !c.knows.Before(at) {
		at = c.knows.Add(1)
	}
	c.known = append(c.known, model.Span{From: c.knows, To: at})
	c.knows = time.Time{}
	for _, sight := range c.seen {
		if !sight.since.IsZero() {
			sight.end(at)
		}
	}
	for _, sight := range c.addressed {
		if !sight.since.IsZero() {
			sight.end(at)
		}
	}
}

// present and absent return when the client saw a subject, and when it saw that there was none.
func (c *client) present(s subject) model.Spans {
	if sight := c.seen[s]; sight != nil {
		return model.NewSpans(sight.spans...)
	}
	return nil
}

func (c *client) absent(s subject) model.Spans {
	return model.NewSpans(c.known...).Subtract(c.present(s))
}

// line returns the line at which a subject appeared or disappeared last, until a time.
func (c *client) line(s subject, until time.Time) []int {
	sight := c.seen[s]
	if sight == nil {
		return nil
	}
	var last time.Time
	var line []int
	for at, number := range sight.lines {
		if !at.After(until) && at.After(last) {
			last, line = at, []int{number}
		}
	}
	return line
}

// end returns until when the client knew anything.
func (c *client) end() time.Time {
	if len(c.known) == 0 {
		return time.Time{}
	}
	return c.known[len(c.known)-1].To
}
