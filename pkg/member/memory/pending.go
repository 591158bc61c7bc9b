// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

type digest [sha256.Size]byte

// absent is the digest of no document.
var absent digest

func digestOf(data []byte) digest {
	if data == nil {
		return absent
	}
	return sha256.Sum256(data)
}

// writing is the state of the replica that is elected.
type writing struct {
	// since is when it was elected, and end hands over.
	since time.Time
	end   context.CancelFunc
	// stored are the digests of the stored documents: two, if a write failed that may
	// have been committed.
	stored map[document][]digest
	// pending are the documents that may differ from the stored ones, the oldest
	// first, and due when they may be written.
	pending []document
	due     map[document]time.Time
	// current is the document that is being written.
	current document
}

// add adds a document that may be written from a time on.
func (w *writing) add(changed document, due time.Time) {
	if _, pending := w.due[changed]; !pending {
		w.due[changed] = due
		w.pending = append(w.pending, changed)
	}
	pendingRecords.Set(float64(len(w.pending)))
}

// next removes and returns the first document that may be written: rest is how long
// one has to wait because of its member, and holds up no other. If there is none, it returns
// how long to wait for one.
func (w *writing) next(now time.Time, rest func(document) time.Duration) (first document, wait time.Duration, ok bool) {
	for i, candidate := range w.pending {
		if early := w.due[candidate].Sub(now); early > 0 {
			return document{}, shorter(wait, early), false // the others are due later
		}
		if resting := rest(candidate); resting > 0 {
			wait = shorter(wait, resting)
			continue
		}
		w.pending = slices.Delete(w.pending, i, i+1)
		delete(w.due, candidate)
		return candidate, 0, true
	}
	return document{}, wait, false
}

// shorter returns the shorter of two times to wait, of which the first may be unknown.
func shorter(known, other time.Duration) time.Duration {
	if known == 0 {
		return other
	}
	return min(known, other)
}

// expected returns the digests that a stored document may have.
func (w *writing) expected(name document) []digest {
	if digests, exists := w.stored[name]; exists {
		return digests
	}
	return []digest{absent}
}

// found sets the digests that a stored document may have.
func (w *writing) found(name document, digests ...digest) {
	if slices.Equal(digests, []digest{absent}) {
		delete(w.stored, name)
	} else {
		w.stored[name] = digests
	}
}

// of returns the stored and the pending documents of a member, and the one that is being
// written.
func (w *writing) of(id string) sets.Set[document] {
	documents := sets.New[document]()
	if w.current.member == id {
		documents.Insert(w.current)
	}
	for stored := range w.stored {
		if stored.member == id {
			documents.Insert(stored)
		}
	}
	for pending := range w.due {
		if pending.member == id {
			documents.Insert(pending)
		}
	}
	return documents
}
