// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// testbed is a history that a test changes.
type testbed struct {
	entries []history.Entry
	// checker knows the history as it was.
	*checker
	// watches are the lines of watching clients.
	watches map[[3]string][]history.Entry
}

// newTestbed copies a history.
func newTestbed(entries []history.Entry) *testbed {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	for _, entry := range entries {
		if err := encoder.Encode(entry); err != nil {
			panic(err)
		}
	}
	copied, err := history.Decode(&text)
	if err != nil {
		panic(err)
	}
	checker, err := newChecker(entries)
	if err != nil {
		panic(err)
	}
	return &testbed{copied, checker, map[[3]string][]history.Entry{}}
}

// history returns the changed history.
func (b *testbed) history() []history.Entry {
	slices.SortStableFunc(b.entries, func(a, b history.Entry) int { return a.At.Compare(b.At) })
	for i := range b.entries {
		b.entries[i].Line = i + 1
	}
	return b.entries
}

func (b *testbed) insert(at time.Time, entry history.Entry) {
	entry.At = at
	b.entries = append(b.entries, entry)
	clear(b.watches)
}

// remove removes the entry of a client with a version.
func (b *testbed) remove(w *history.Watch) {
	b.entries = slices.DeleteFunc(b.entries, func(entry history.Entry) bool { return entry.Watch == w })
	clear(b.watches)
}

// objects calls a function with all objects in lines of a resource of a cluster from one time
// until another.
func (b *testbed) objects(cluster, resource string, from, to time.Time, visit func(*history.Object)) {
	for _, entry := range b.entries {
		w := entry.Watch
		if w == nil || w.Cluster != cluster || w.Resource != resource || entry.At.Before(from) || !entry.At.Before(to) {
			continue
		}
		if w.Object != nil {
			visit(w.Object)
		}
		for i := range w.Items {
			visit(&w.Items[i])
		}
	}
}

// watching returns the lines of a watching client, in order.
func (b *testbed) watching(cluster, resource, name string) []history.Entry {
	client := [3]string{cluster, resource, name}
	if lines, ok := b.watches[client]; ok {
		return lines
	}
	var lines []history.Entry
	for _, entry := range b.entries {
		if w := entry.Watch; w != nil && w.Cluster == cluster && w.Resource == resource && w.Client == name {
			lines = append(lines, entry)
		}
	}
	slices.SortStableFunc(lines, func(a, b history.Entry) int { return a.At.Compare(b.At) })
	b.watches[client] = lines
	return lines
}

// viewAt returns what a watching client sees at a time, and false if it does not watch.
func (b *testbed) viewAt(cluster, resource, name string, at time.Time) (map[key]history.Object, bool) {
	objects, open := map[key]history.Object{}, false
	for _, entry := range b.watching(cluster, resource, name) {
		if !entry.At.Before(at) {
			break
		}
		switch w := entry.Watch; w.Type {
		case history.Listed:
			clear(objects)
			for _, object := range w.Items {
				objects[keyOf(object)] = object
			}
			open = true
		case history.Resumed:
			open = true
		case history.Closed:
			open = false
		case history.Deleted:
			delete(objects, keyOf(*w.Object))
		case history.Added, history.Modified:
			objects[keyOf(*w.Object)] = *w.Object
		}
	}
	return objects, open
}

// advance lets a watching client see no older version after a time in what is not about one object.
func (b *testbed) advance(cluster, resource, name string, after time.Time, version int) {
	for _, entry := range b.watching(cluster, resource, name) {
		w := entry.Watch
		if entry.At.After(after) && w.Object == nil && w.ResourceVersion != "" && compareVersions(w.ResourceVersion, strconv.Itoa(version)) < 0 {
			w.ResourceVersion = strconv.Itoa(version)
		}
	}
}

// modify lets both watching clients see that an object changed, if both watch. The offset makes
// the version unique.
func (b *testbed) modify(cluster, resource string, at time.Time, offset int, of key, change func(*history.Object)) bool {
	var changed []history.Object
	version := 1000
	for _, name := range []string{"1", "2"} {
		view, open := b.viewAt(cluster, resource, name, at)
		object, exists := view[of]
		if !open || !exists {
			return false
		}
		change(&object)
		changed = append(changed, object)
		for _, entry := range b.watching(cluster, resource, name) {
			if number, err := strconv.Atoi(entry.Watch.ResourceVersion); err == nil && entry.At.Before(at) {
				version = max(version, number)
			}
		}
	}
	version += offset - version%10
	for i, name := range []string{"1", "2"} {
		b.advance(cluster, resource, name, at, version)
		b.insert(at, history.Entry{Watch: &history.Watch{
			Cluster: cluster, Resource: resource, Client: name, Type: history.Modified, ResourceVersion: strconv.Itoa(version), Object: &changed[i],
		}})
	}
	return true
}

// endpoint is an endpoint in the view of a cluster.
type endpoint struct {
	cluster string
	subject
}

func (e endpoint) slice() key { return key{e.Namespace, e.Name + "-" + e.source} }

// without returns a change that removes the address from a slice, and with one that adds it.
func (e endpoint) without(object *history.Object) {
	slice := *object.Slice
	slice.Addresses = slices.DeleteFunc(slices.Clone(slice.Addresses), func(a string) bool { return a == e.address })
	object.Slice = &slice
}

func (e endpoint) with(object *history.Object) {
	e.without(object)
	object.Slice.Addresses = append(object.Slice.Addresses, e.address)
}

// endpoints returns all endpoints of other clusters in all clusters.
func (b *testbed) endpoints() []endpoint {
	var all []endpoint
	for _, cluster := range b.clusters {
		for s := range b.expectedEndpoints() {
			if s.source != cluster {
				all = append(all, endpoint{cluster, s})
			}
		}
	}
	slices.SortFunc(all, func(a, b endpoint) int {
		return bytes.Compare([]byte(a.cluster+a.String()), []byte(b.cluster+b.String()))
	})
	return all
}

// lasting returns an endpoint that must be seen for a time.
func (b *testbed) lasting(duration time.Duration) (endpoint, time.Time, bool) {
	for _, e := range b.endpoints() {
		for _, span := range b.expectEndpoint(e.cluster, e.subject).must {
			if end := b.entries[len(b.entries)-1].At; span.To.After(end) {
				span.To = end
			}
			if span.Duration() > duration+2*time.Second {
				return e, span.From.Add(time.Second), true
			}
		}
	}
	return endpoint{}, time.Time{}, false
}

// hide lets all clients of a cluster not see an endpoint for a time, if they watch then.
func (b *testbed) hide(e endpoint, from, to time.Time) bool {
	before := slices.Clone(b.entries)
	if !b.modify(e.cluster, history.Slices, to, 2, e.slice(), e.with) || !b.modify(e.cluster, history.Slices, from, 1, e.slice(), e.without) {
		b.entries = before
		clear(b.watches)
		return false
	}
	b.objects(e.cluster, history.Slices, from, to, func(object *history.Object) {
		if keyOf(*object) == e.slice() {
			e.without(object)
		}
	})
	return true
}

// imports returns the services, in a fixed order, and the clusters.
func (b *testbed) imports(visit func(cluster string, of history.Service) bool) bool {
	for _, cluster := range b.clusters {
		for _, of := range b.source.Services() {
			if visit(cluster, of) {
				return true
			}
		}
	}
	return false
}

// replaceUID replaces a UID in all lines of a cluster from a time on.
func (b *testbed) replaceUID(cluster string, from time.Time, old, replacement string) {
	b.objects(cluster, history.Imports, from, from.Add(24*time.Hour), func(object *history.Object) {
		if object.UID == old {
			object.UID = replacement
		}
	})
}

// uids returns the UIDs that clients of a cluster saw of an import.
func (b *testbed) uids(cluster string, of history.Service) []string {
	seen := map[string]bool{}
	b.objects(cluster, history.Imports, b.entries[0].At, b.end(), func(object *history.Object) {
		if keyOf(*object) == (key{of.Namespace, of.Name}) {
			seen[object.UID] = true
		}
	})
	return slices.Sorted(maps.Keys(seen))
}

// end returns the time of the last line.
func (b *testbed) end() time.Time { return b.checker.entries[len(b.checker.entries)-1].At }
