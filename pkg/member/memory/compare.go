// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// compareLocked notes that all documents of a member may have to be written, divided
// as those that are stored.
func (r *Recorder) compareLocked(id string) {
	member := r.members[id]
	if r.writing == nil || member == nil && !r.forgotten.Has(id) || member != nil && !member.heard {
		return
	}
	documents := r.writing.of(id)
	if member != nil {
		var prefixes []string
		for document := range documents {
			if !document.contact {
				prefixes = append(prefixes, document.prefix)
			}
		}
		member.services = member.services.divided(prefixes)
		documents.Insert(document{member: id, contact: true})
		for prefix := range member.services.chunks {
			documents.Insert(document{member: id, prefix: prefix})
		}
	} else {
		member = &remembered{heard: true}
	}
	contact := document{member: id, contact: true}
	last := documents.Has(contact)
	for document := range documents.Delete(contact) {
		r.changedLocked(member, document)
	}
	if last { // until the Services that it lists are written, they count as incomplete
		r.changedLocked(member, contact)
	}
}

// takeOver begins to write. It reports false if the context ended.
func (r *Recorder) takeOver(ctx context.Context) bool {
	return r.retry(ctx, "Failed to compare the recorded exports of members, retrying", func() error { return r.TakeOver(ctx) })
}

// TakeOver begins to write: it compares what this replica knows with what is stored.
func (r *Recorder) TakeOver(ctx context.Context) error {
	return r.compare(ctx, writing{since: r.clock.Now()})
}

// compareAgain compares what this replica hears from now on with what is stored.
func (r *Recorder) compareAgain(ctx context.Context) error {
	r.mu.Lock()
	term := writing{since: r.writing.since, end: r.writing.end}
	for _, member := range r.members {
		member.heard = false
	}
	r.mu.Unlock()
	return r.compare(ctx, term)
}

func (r *Recorder) compare(ctx context.Context, term writing) error {
	documents, _, err := r.store.List(ctx)
	if err != nil {
		return err
	}
	term.stored, term.due = map[document][]digest{}, map[document]time.Time{}
	for name, data := range documents {
		if identified, ok := parseName(name); ok {
			term.found(identified, digestOf(data))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writing = &term
	for id := range sets.KeySet(r.members).Union(r.forgotten) {
		r.compareLocked(id)
	}
	elected.Set(1)
	return nil
}
