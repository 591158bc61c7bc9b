// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"
)

const (
	// bytesPerSecond is how many bytes are written per second because of one member, and
	// bytesAtOnce how many at once: the storage keeps all of them for minutes. 5,000
	// ordinary Services take much less than that.
	bytesPerSecond = 512 << 10
	bytesAtOnce    = 16 << 20
)

// restLocked returns how long a document has to wait because too much was written of its
// member. One that is only deleted does not wait.
func (r *Recorder) restLocked(of document) time.Duration {
	member := r.members[of.member]
	if member == nil {
		return 0
	}
	if content, exists := member.services.chunks[of.prefix]; exists && len(content) == 0 && !of.contact {
		return 0
	}
	return r.rests[of.member].Sub(r.clock.Now())
}

// spendLocked counts bytes of a member.
func (r *Recorder) spendLocked(id string, bytes int) {
	if wait := r.written.Reserve(id, bytes); wait > 0 {
		r.rests[id] = r.clock.Now().Add(wait)
	} else {
		delete(r.rests, id)
	}
}

// omit notes that a document is too large to be stored. It is not listed in the contact: it
// would be missing after a restart, and everything would wait for the member to be read.
func (r *Recorder) omit(ctx context.Context, large document, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spendLocked(large.member, bytes) // it takes as long as if it were written
	member := r.members[large.member]
	_, changed := r.writing.due[large]
	if member == nil || changed || !large.contact && member.tooLarge.Has(large.prefix) {
		return
	}
	klog.FromContext(ctx).Error(nil, "Export is too large to be recorded, it is not available after a restart until its member is read again",
		"cluster", large.member, "record", large, "bytes", bytes, "limit", maxDocument)
	if !large.contact {
		member.tooLarge.Insert(large.prefix)
		r.changedLocked(member, document{member: large.member, contact: true})
	}
}

// listed returns the prefixes of all chunks that have Services, except those that are
// too large to be stored, sorted.
func (m *remembered) listed() []string {
	return slices.DeleteFunc(m.services.used(), m.tooLarge.Has)
}
