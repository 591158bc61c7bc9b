// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

const (
	// writeDelay collects changes of a document before it is written.
	writeDelay    = time.Second
	maxRetryDelay = 30 * time.Second
	// writeTimeout limits the write of one document.
	writeTimeout = 10 * time.Second
	// lastWrites limits the writes when this server ends or hands over.
	lastWrites = 5 * time.Second
	// minTerm is how long a replica writes before it hands over.
	minTerm = time.Minute
)

// changedLocked notes that a document of a member may have to be written.
func (r *Recorder) changedLocked(member *remembered, changed document) {
	if r.writing == nil || !member.heard {
		return
	}
	r.writing.add(changed, r.clock.Now().Add(writeDelay))
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// chunksChangedLocked notes that chunks of a member changed, and with them, possibly, the
// list of its chunks.
func (r *Recorder) chunksChangedLocked(id string, member *remembered, prefixes []string) {
	for _, prefix := range prefixes {
		member.tooLarge.Delete(prefix) // until it is encoded again
		r.changedLocked(member, document{member: id, prefix: prefix})
	}
	if len(prefixes) > 0 {
		r.changedLocked(member, document{member: id, contact: true})
	}
}

// resign ends writing.
func (r *Recorder) resign() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writing = nil
	elected.Set(0)
	pendingRecords.Set(0)
}

// writeUntilDone writes until the context ends. Documents are written one by one, and
// one that fails is retried after the others: changes that arrive all the time, or a
// document that cannot be written, do not hold up the others.
func (r *Recorder) writeUntilDone(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		r.mu.Lock()
		first, wait, ok := r.writing.next(r.clock.Now(), r.restLocked)
		r.mu.Unlock()
		switch {
		case ok:
			if r.try(ctx, first) {
				failures = 0
				continue
			}
			wait = delayAfter(failures)
			failures++
		case wait == 0:
			select {
			case <-ctx.Done():
			case <-r.wake:
			}
			continue
		}
		if !ok {
			wait = min(wait, writeDelay) // others may be due before the member that rests
		}
		select {
		case <-ctx.Done():
		case <-r.clock.After(wait):
		}
	}
}

// Flush writes what is pending, without a delay, and reports whether that succeeded. It
// stops at the first failure. Documents of a member of which too much was written stay
// pending: the next replica writes them. A replica that is not elected has nothing pending.
func (r *Recorder) Flush(ctx context.Context) bool {
	for {
		r.mu.Lock()
		if r.writing == nil {
			r.mu.Unlock()
			return true
		}
		first, _, ok := r.writing.next(r.clock.Now().Add(maxRetryDelay), r.restLocked)
		r.mu.Unlock()
		if !ok {
			return true
		}
		if !r.try(ctx, first) {
			return false
		}
	}
}

// try writes a document. If that fails, the document is pending again. If somebody else
// changed it, nothing is pending until all documents are compared with what is heard from
// now on: this replica may have been paused.
func (r *Recorder) try(ctx context.Context, pending document) bool {
	err := r.write(ctx, pending)
	if errors.Is(err, errReplaced) {
		klog.FromContext(ctx).Info("A record of the exports of a member was changed by another replica or restored, comparing all of them with what members export from now on", "cluster", pending.member, "name", pending)
		err = r.compareAgain(ctx)
	}
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Failed to record the exports of a member, retrying", "cluster", pending.member)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.writing.add(pending, r.clock.Now().Add(writeDelay))
		return false
	}
	pendingRecords.Set(float64(len(r.writing.pending)))
	return true
}

// content is what a document is to contain.
type content struct {
	// known is false if this replica does not know, and the document stays as it is.
	known    bool
	uid      types.UID
	contact  *recorded
	services []*clusterset.ExportedService
	// parts are the documents that this one was divided into.
	parts []document
}

func (r *Recorder) contentLocked(of document) content {
	member := r.members[of.member]
	if member == nil {
		return content{known: r.forgotten.Has(of.member)}
	}
	wanted := content{known: true, uid: member.uid} // it was heard from when the document changed
	if of.contact {
		wanted.contact = &recorded{member.uid, member.contact, member.listed()}
		return wanted
	}
	if services, ok := member.services.chunks[of.prefix]; ok {
		wanted.services = services.sorted()
		return wanted
	}
	for _, prefix := range member.services.under(of.prefix) {
		wanted.parts = append(wanted.parts, document{member: of.member, prefix: prefix})
	}
	return wanted
}

func (c content) encode() ([]byte, error) {
	if c.contact != nil {
		return encodeContact(*c.contact)
	}
	return encodeServices(c.uid, c.services)
}

// write writes a document if it differs from what is stored.
func (r *Recorder) write(ctx context.Context, pending document) error {
	r.mu.Lock()
	wanted := r.contentLocked(pending)
	_, exists := r.writing.stored[pending]
	r.writing.current = pending
	r.mu.Unlock()
	if !wanted.known || !exists && len(wanted.parts) > 0 {
		return nil
	}
	for _, part := range wanted.parts { // before what was divided is deleted
		if err := r.write(ctx, part); err != nil {
			return err
		}
	}
	data, err := wanted.encode()
	if err != nil {
		return fmt.Errorf("encode record %s: %w", pending, err)
	}
	if len(data) > maxDocument {
		if len(wanted.services) > 1 && r.split(pending) {
			return r.write(ctx, pending)
		}
		r.omit(ctx, pending, len(data))
		data = nil // no record is better than an outdated one
	}
	return r.update(ctx, pending, data)
}

// split divides a chunk that is too large, and reports whether it is divided.
func (r *Recorder) split(large document) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	member := r.members[large.member]
	if member == nil {
		return false
	}
	if _, whole := member.services.chunks[large.prefix]; !whole {
		return true
	}
	if !member.services.split(large.prefix) {
		return false
	}
	r.chunksChangedLocked(large.member, member, member.services.under(large.prefix))
	return true
}

// errReplaced ends an update of a document that is not the one that this replica stored or
// found: another one may have been elected, which knows better.
var errReplaced = errors.New("the stored document was changed by somebody else")

// update replaces a stored document, unless it is known to be the same.
func (r *Recorder) update(ctx context.Context, changed document, data []byte) error {
	wanted := digestOf(data)
	r.mu.Lock()
	expected := r.writing.expected(changed)
	r.mu.Unlock()
	if slices.Equal(expected, []digest{wanted}) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	outcome, result := expected, "error"
	_, _, err := r.store.Update(ctx, changed.String(), func(current []byte) ([]byte, error) {
		found := digestOf(current) // the wanted one may be that of an attempt before
		if found != wanted && !slices.Contains(expected, found) {
			outcome = expected
			return nil, errReplaced
		}
		outcome = []digest{found, wanted}
		return data, nil
	})
	if err == nil {
		outcome, result = []digest{wanted}, "success"
	}
	recordWrites.WithLabelValues(result).Inc()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spendLocked(changed.member, len(data)) // it may have been written if it failed
	r.writing.found(changed, outcome...)
	return err
}
