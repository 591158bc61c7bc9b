// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"sync"
)

// maxReaders limits how many pages are open at a time. Browsers open up to six connections to a server, of
// which pages hold one each: there must be some for other requests.
const maxReaders = 4

// entryKind is what an entry describes.
type entryKind string

const (
	viewEntry    entryKind = "view"
	clusterEntry entryKind = "cluster"
	serviceEntry entryKind = "service"
)

// entryID identifies an entry.
type entryID struct {
	kind entryKind
	key  string
}

// change is the current value of an entry, null if it was deleted.
type change struct {
	Kind  entryKind       `json:"kind"`
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// store has what pages show, and knows what each of them has not received yet. A reader that is slow
// delays nothing: of an entry that changes several times meanwhile, it receives the last value.
type store struct {
	mu      sync.Mutex
	entries map[entryID]json.RawMessage
	readers map[*reader]struct{}
}

// reader is a page.
type reader struct {
	// changed has an element if something is pending. Pending entries are protected by the lock of
	// the store.
	changed chan struct{}
	pending map[entryID]struct{}
}

func newStore() *store {
	return &store{entries: map[entryID]json.RawMessage{}, readers: map[*reader]struct{}{}}
}

func encode(value any) json.RawMessage {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // our types can be encoded
	}
	return encoded
}

// has reports whether an entry has a value.
func (s *store) has(kind entryKind, key string, value any) bool {
	encoded := encode(value)
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Equal(s.entries[entryID{kind, key}], encoded)
}

// set changes an entry. Readers are told if its value is another one.
func (s *store) set(kind entryKind, key string, value any) {
	encoded := encode(value)
	s.mu.Lock()
	defer s.mu.Unlock()
	id := entryID{kind, key}
	if bytes.Equal(s.entries[id], encoded) {
		return
	}
	s.entries[id] = encoded
	s.tellLocked(id)
}

// delete removes an entry.
func (s *store) delete(kind entryKind, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := entryID{kind, key}
	if _, ok := s.entries[id]; ok {
		delete(s.entries, id)
		s.tellLocked(id)
	}
}

func (s *store) tellLocked(id entryID) {
	for r := range s.readers {
		r.pending[id] = struct{}{}
		select {
		case r.changed <- struct{}{}:
		default: // it has not looked since the last change
		}
	}
}

// keys returns the keys of all entries of a kind.
func (s *store) keys(kind entryKind) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for id := range s.entries {
		if id.kind == kind {
			keys = append(keys, id.key)
		}
	}
	return keys
}

// subscribe adds a reader, for which everything is pending. It returns nil if there are too many.
func (s *store) subscribe() *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.readers) >= maxReaders {
		return nil
	}
	r := &reader{changed: make(chan struct{}, 1), pending: map[entryID]struct{}{}}
	for id := range s.entries {
		r.pending[id] = struct{}{}
	}
	s.readers[r] = struct{}{}
	return r
}

func (s *store) unsubscribe(r *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.readers, r)
}

// open returns the number of readers.
func (s *store) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.readers)
}

// take returns what a reader has not received yet, views first and services last.
func (s *store) take(r *reader) []change {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes := make([]change, 0, len(r.pending))
	for id := range r.pending {
		changes = append(changes, change{Kind: id.kind, Key: id.key, Value: s.entries[id]})
	}
	clear(r.pending)
	order := []entryKind{viewEntry, clusterEntry, serviceEntry}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)), cmp.Compare(a.Key, b.Key))
	})
	return changes
}
