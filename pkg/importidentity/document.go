// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// maxEnded and maxShown are how many names a document has entries for: names that
// are not in use, and names of imports that are shown. Kubernetes supports 5,000
// Services per namespace. With names of 63 characters, a document has 600 KiB.
const (
	maxEnded = 2048
	maxShown = 5000
)

// document is the record of the lives of one namespace. The life of a name never
// decreases, whatever happens to a document.
type document struct {
	// Namespace is the name of the namespace. The name of the document is its UID.
	Namespace string `json:"namespace"`
	// Base is the life of all names without an entry.
	Base Life `json:"base,omitzero"`
	// Lives are the lives of names that have another one.
	Lives map[string]Life `json:"lives,omitempty"`
}

// MarshalJSON encodes a life as an array, because a document can have thousands.
func (l Life) MarshalJSON() ([]byte, error) { return json.Marshal([2]int64{l.Number, l.Since}) }

// UnmarshalJSON decodes what MarshalJSON encodes.
func (l *Life) UnmarshalJSON(data []byte) error {
	var pair [2]int64
	err := json.Unmarshal(data, &pair)
	l.Number, l.Since = pair[0], pair[1]
	return err
}

// decode decodes a document; without data the document is empty.
func decode(data []byte) (document, error) {
	var decoded document
	if data == nil {
		return decoded, nil
	}
	if err := json.Unmarshal(data, &decoded); err != nil {
		return document{}, fmt.Errorf("decode the lives of a namespace: %w", err)
	}
	return decoded, nil
}

// life returns the life of a name.
func (d document) life(name string) Life {
	if life, ok := d.Lives[name]; ok {
		return life
	}
	return d.Base
}

// set changes the life of a name. Only lives that differ from the base have an
// entry.
func (d *document) set(name string, life Life) {
	if life == d.Base {
		delete(d.Lives, name)
		return
	}
	if d.Lives == nil {
		d.Lives = map[string]Life{}
	}
	d.Lives[name] = life
}

// end ends a life of a name, unless it is over already.
func (d *document) end(name string, number int64, now time.Time) {
	if current := d.life(name); current.Number <= number {
		d.set(name, Life{number + 1, max(now.Unix(), current.Since)})
	}
}

// names returns all names that have an entry in either of two documents.
func names(a, b document) []string {
	union := slices.AppendSeq(slices.Collect(maps.Keys(a.Lives)), maps.Keys(b.Lives))
	slices.Sort(union)
	return slices.Compact(union)
}

// merge returns a document in which every name has the later of its lives in two
// documents.
func merge(a, b document) document {
	merged := document{Namespace: b.Namespace, Base: laterLife(a.Base, b.Base)}
	if b.Namespace == "" {
		merged.Namespace = a.Namespace
	}
	for _, name := range names(a, b) {
		merged.set(name, laterLife(a.life(name), b.life(name)))
	}
	return merged
}

// changes returns the names whose lives differ, or all if those of any name may.
func changes(before, after document) (changed []string, all bool) {
	if before.Base != after.Base {
		return nil, true
	}
	return slices.DeleteFunc(names(before, after), func(name string) bool { return before.life(name) == after.life(name) }), false
}

// compact limits the number of entries. It raises the base above the lives of all
// names, so that none of these is used again, and drops the entries of names that
// are not in use. Imports that are shown keep their lives, and get an entry for
// that. Those beyond maxShown, and those that only another replica shows, begin a
// new life.
func (d *document) compact(listShown func() map[string]int64) {
	if len(d.Lives) <= maxEnded {
		return
	}
	shown, ended, base := listShown(), 0, d.Base
	for name, life := range d.Lives {
		if _, exists := shown[name]; !exists {
			ended++
		}
		base.Number, base.Since = max(base.Number, life.Number), max(base.Since, life.Since)
	}
	if ended <= maxEnded && len(d.Lives)-ended <= maxShown {
		return
	}
	for _, number := range shown {
		base.Number = max(base.Number, number)
	}
	base.Number++
	compacted := document{Namespace: d.Namespace, Base: base}
	for _, name := range slices.Sorted(maps.Keys(shown))[:min(len(shown), maxShown)] {
		life := d.life(name)
		compacted.set(name, laterLife(life, Life{shown[name], life.Since}))
	}
	*d = compacted
}
