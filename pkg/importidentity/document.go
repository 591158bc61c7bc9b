// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// shards is how many documents a namespace has at most. It must not change.
	shards = 16
	// maxEnded is how many names that are not in use a document has entries for.
	maxEnded = 512
)

// shard identifies a document: that of some of the names of a namespace.
type shard struct {
	namespace types.UID
	number    uint32
}

// shardOf returns the shard of a name.
func shardOf(namespace types.UID, name string) shard {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name))
	return shard{namespace, hash.Sum32() % shards}
}

// parseShard returns the shard of the document with a name.
func parseShard(document string) (shard, error) {
	uid, suffix, _ := strings.Cut(document, ".")
	number, err := strconv.ParseUint(suffix, 10, 32)
	if err != nil || number >= shards || uid == "" {
		return shard{}, fmt.Errorf("the name of record %q is not that of the lives of a namespace", document)
	}
	return shard{types.UID(uid), uint32(number)}, nil
}

// String returns the name of the document.
func (s shard) String() string { return fmt.Sprintf("%s.%d", s.namespace, s.number) }

// document is the record of the lives of the names in one shard of a namespace. The
// life of a name never decreases, whatever happens to a document.
type document struct {
	// Namespace is the name of the namespace. Its UID is part of the name of the
	// document.
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

const (
	// entrySize is about how many bytes a life takes, with a long name, and documentSize how
	// many a document takes that has none, with the object that it is stored in.
	entrySize    = 88
	documentSize = 1 << 10
)

// size returns about how many bytes a document takes.
func (d document) size() int { return documentSize + len(d.Lives)*entrySize }

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

// compact limits the number of entries for names that are not in use. It raises the
// base above the lives of all names, so that none of these is used again, and drops
// their entries. Imports that exist keep their lives, and get an entry for that,
// however many there are.
func (d *document) compact(listLiving func() map[string]int64) {
	if len(d.Lives) <= maxEnded {
		return
	}
	living, ended, base := listLiving(), 0, d.Base
	for name, life := range d.Lives {
		if _, exists := living[name]; !exists {
			ended++
		}
		base.Number, base.Since = max(base.Number, life.Number), max(base.Since, life.Since)
	}
	if ended <= maxEnded {
		return
	}
	for _, number := range living {
		base.Number = max(base.Number, number)
	}
	base.Number++
	compacted := document{Namespace: d.Namespace, Base: base}
	for name, number := range living {
		life := d.life(name)
		compacted.set(name, laterLife(life, Life{number, life.Since}))
	}
	*d = compacted
}
