// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package encoded

import (
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
)

// Budget limits how many bytes of encodings are kept.
type Budget struct {
	limit int64
	used  atomic.Int64
	// exceeded is whether something was not kept since the last time that bytes were returned.
	exceeded atomic.Bool
}

// NewBudget returns a budget of so many bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Used returns how many bytes of encodings are kept.
func (b *Budget) Used() int64 { return b.used.Load() }

// take reports whether so many more bytes may be kept.
func (b *Budget) take(bytes int64) bool {
	if b.used.Add(bytes) <= b.limit {
		return true
	}
	b.used.Add(-bytes)
	b.exceeded.Store(true)
	return false
}

// give returns bytes that are not kept any more.
func (b *Budget) give(bytes int64) {
	b.used.Add(-bytes)
	b.exceeded.Store(false)
}

// encodings are those of one version of an object.
type encodings struct {
	budget *Budget

	mu sync.Mutex
	// results has one entry per group-version, and derived one per Derivation.
	results  []*result
	derived  map[*Derivation]*encodings
	kept     int64
	released bool
}

func newEncodings(budget *Budget) *encodings { return &encodings{budget: budget} }

// result is one encoding, or being made.
type result struct {
	id   runtime.Identifier
	once sync.Once
	raw  []byte
	err  error
}

// get returns an encoding, and makes it if it is not kept. Others wait for it meanwhile. An
// encoding that is nil is not kept. Nobody modifies what is returned.
func (e *encodings) get(id runtime.Identifier, encode func() ([]byte, error)) ([]byte, error) {
	found := e.find(id)
	found.once.Do(func() {
		found.raw, found.err = encode()
		e.keep(found)
	})
	return found.raw, found.err
}

// keeps reports whether an encoding is kept, or will be.
func (e *encodings) keeps(id runtime.Identifier) bool {
	if e == nil {
		return false
	}
	if !e.budget.exceeded.Load() {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.results, func(found *result) bool { return found.id == id })
}

// find returns the result for a format, which may be made yet.
func (e *encodings) find(id runtime.Identifier) *result {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, found := range e.results {
		if found.id == id {
			return found
		}
	}
	added := &result{id: id}
	if !e.released {
		e.results = append(e.results, added)
	}
	return added
}

// keep keeps a result, unless it failed, the budget is used up, or nobody needs it any more.
func (e *encodings) keep(made *result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	size := int64(len(made.raw))
	if e.released {
		return
	}
	if made.err == nil && made.raw != nil && e.budget.take(size) {
		e.kept += size
		return
	}
	e.results = slices.DeleteFunc(e.results, func(found *result) bool { return found == made })
}

// of returns the encodings of what a derivation makes of the object.
func (e *encodings) of(derivation *Derivation) *encodings {
	e.mu.Lock()
	defer e.mu.Unlock()
	found, ok := e.derived[derivation]
	if !ok {
		found = newEncodings(e.budget)
		if e.released {
			found.released = true
			return found
		}
		if e.derived == nil {
			e.derived = map[*Derivation]*encodings{}
		}
		e.derived[derivation] = found
	}
	return found
}

// release forgets all encodings, and keeps no others. It does not wait for one that is
// being made.
func (e *encodings) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.released = true
	if e.kept > 0 {
		e.budget.give(e.kept)
	}
	e.results, e.kept = nil, 0
	for _, derived := range e.derived {
		derived.release()
	}
	e.derived = nil
}
