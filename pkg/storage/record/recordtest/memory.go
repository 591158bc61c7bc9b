// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recordtest provides a record.Store in memory, and the tests that every
// record.Store must pass.
package recordtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/record"
)

// Call identifies a call of a Store.
type Call struct {
	// Method is List, Update or Watch.
	Method string
	// Name is the document of an Update.
	Name string
}

// Hook is called with every call. It can block, and fail the call by returning an
// error.
type Hook func(ctx context.Context, call Call) error

// Store is a record.Store in memory. Replicas of a test share one.
type Store struct {
	mu        sync.Mutex
	version   int
	documents map[string]document
	log       []event
	// changed is closed and replaced with every change, and broken with every
	// BreakWatches.
	changed, broken chan struct{}
	before, after   Hook
}

var _ record.Store = &Store{}

type document struct {
	data    []byte
	version int
}

type event struct {
	name string
	document
}

// New returns an empty store.
func New() *Store {
	return &Store{documents: map[string]document{}, changed: make(chan struct{}), broken: make(chan struct{})}
}

// Before sets a hook that runs before a call has any effect. nil removes it.
func (s *Store) Before(hook Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = hook
}

// After sets a hook that runs after a List or Update took effect, such as to fail
// a write that was committed. nil removes it.
func (s *Store) After(hook Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = hook
}

// BreakWatches ends all watches with an error.
func (s *Store) BreakWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.broken)
	s.broken = make(chan struct{})
}

// Version returns the number of writes so far.
func (s *Store) Version() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

func (s *Store) call(ctx context.Context, call Call, run func() error) error {
	hook := func(hook *Hook) error {
		s.mu.Lock()
		h := *hook
		s.mu.Unlock()
		if h == nil {
			return nil
		}
		return h(ctx, call)
	}
	if err := hook(&s.before); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := run(); err != nil {
		return err
	}
	return hook(&s.after)
}

// List implements record.Store.
func (s *Store) List(ctx context.Context) (documents map[string][]byte, version string, err error) {
	err = s.call(ctx, Call{Method: "List"}, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		documents = map[string][]byte{}
		for name, document := range maps.All(s.documents) {
			documents[name] = bytes.Clone(document.data)
		}
		version = strconv.Itoa(s.version)
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return documents, version, nil
}

// Update implements record.Store. Concurrent updates conflict as in real storage.
func (s *Store) Update(ctx context.Context, name string, update func([]byte) ([]byte, error)) (stored []byte, version string, err error) {
	err = s.call(ctx, Call{"Update", name}, func() (err error) {
		for done := false; err == nil && !done; {
			stored, version, done, err = s.try(name, update)
		}
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return stored, version, nil
}

func (s *Store) try(name string, update func([]byte) ([]byte, error)) (stored []byte, version string, done bool, _ error) {
	s.mu.Lock()
	before, exists := s.documents[name]
	s.mu.Unlock()
	wanted, err := update(bytes.Clone(before.data))
	if err != nil {
		return nil, "", false, err
	}
	if len(wanted) > record.MaxBytes {
		return nil, "", false, fmt.Errorf("document has %d bytes, limit %d bytes", len(wanted), record.MaxBytes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.documents[name].version != before.version:
		return nil, "", false, nil
	case !exists && wanted == nil:
		return nil, "", true, nil
	case exists && wanted != nil && bytes.Equal(wanted, before.data):
		return wanted, strconv.Itoa(before.version), true, nil
	}
	s.version++
	written := document{bytes.Clone(wanted), s.version}
	if wanted == nil {
		delete(s.documents, name)
	} else {
		s.documents[name] = written
	}
	s.log = append(s.log, event{name, written})
	close(s.changed)
	s.changed = make(chan struct{})
	return wanted, strconv.Itoa(s.version), true, nil
}

// Watch implements record.Store.
func (s *Store) Watch(ctx context.Context, from string, observe func(name string, data []byte, version string)) error {
	if err := s.call(ctx, Call{Method: "Watch"}, func() error { return s.watch(ctx, from, observe) }); ctx.Err() == nil {
		return err
	}
	return nil
}

func (s *Store) watch(ctx context.Context, from string, observe func(name string, data []byte, version string)) error {
	position, err := strconv.Atoi(from)
	if err != nil {
		return err
	}
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	for {
		s.mu.Lock()
		events, changed := s.log[position:], s.changed
		s.mu.Unlock()
		for _, event := range events {
			observe(event.name, bytes.Clone(event.data), strconv.Itoa(event.version))
			position = event.version
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-broken:
			return errors.New("the watch was broken by the test")
		case <-changed:
		}
	}
}
