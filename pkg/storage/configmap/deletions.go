// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package configmap

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// deletionMemory is how long a deletion of this replica is remembered: until all of its watches have
// reported it.
const deletionMemory = 10 * time.Second

// deletions are the wrappers that this replica deletes. A watch that reports one of them needs no
// confirmation that it was meant, and knows its version, which the response does not have. It
// is safe for concurrent use.
type deletions struct {
	mu    sync.Mutex
	byUID map[types.UID]*deletion
	// succeeded are those that have succeeded, the oldest first.
	succeeded []*deletion
	// followers is how many watches report every deletion without delay.
	followers int
}

// deletion is that of a wrapper, by one request or by several at the same time.
type deletion struct {
	uid types.UID
	// pending is how many requests have not ended. ended is closed with the first that succeeds, or
	// the last that fails.
	pending int
	ended   chan struct{}
	// at is when a request has succeeded, zero if none has.
	at time.Time
	// reported is closed when the version is known, or when nobody is left who would report it.
	reported chan struct{}
	version  string
}

func newDeletions() *deletions { return &deletions{byUID: map[types.UID]*deletion{}} }

// begin notes that a wrapper is being deleted, and reports whether a watch will report it.
func (d *deletions) begin(uid types.UID) (begun *deletion, followed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	begun = d.byUID[uid]
	if begun == nil || !begun.at.IsZero() && time.Since(begun.at) > deletionMemory {
		begun = &deletion{uid: uid, ended: make(chan struct{}), reported: make(chan struct{})}
		d.byUID[uid] = begun
	}
	begun.pending++
	return begun, d.followers > 0
}

// end notes whether a request has deleted the wrapper.
func (d *deletions) end(request *deletion, succeeded bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for len(d.succeeded) > 0 && now.Sub(d.succeeded[0].at) > deletionMemory {
		d.forgetLocked(d.succeeded[0])
		d.succeeded = d.succeeded[1:]
	}
	request.pending--
	switch {
	case succeeded:
		request.at = now
		d.succeeded = append(d.succeeded, request)
		closeOnce(request.ended)
	case request.pending == 0 && request.at.IsZero():
		d.forgetLocked(request)
		closeOnce(request.ended)
	}
}

func (d *deletions) forgetLocked(forgotten *deletion) {
	if d.byUID[forgotten.uid] == forgotten { // others may have begun meanwhile
		delete(d.byUID, forgotten.uid)
	}
}

// own reports whether a wrapper was deleted by this replica. It waits for requests that have not
// ended: the event of a deletion may be faster than the response.
func (d *deletions) own(ctx context.Context, uid types.UID) bool {
	d.mu.Lock()
	known := d.byUID[uid]
	d.mu.Unlock()
	if known == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, deletionTimeout)
	defer cancel()
	select {
	case <-known.ended:
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return !known.at.IsZero() && time.Since(known.at) <= deletionMemory
}

// report notes the version of a deletion that a watch of all wrappers has reported.
func (d *deletions) report(uid types.UID, version string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if reported := d.byUID[uid]; reported != nil {
		reported.reportLocked(version)
	}
}

func (d *deletion) reportLocked(version string) {
	if !isClosed(d.reported) {
		d.version = version
		close(d.reported)
	}
}

// isClosed and closeOnce are for channels that are closed with the lock held.
func isClosed(channel chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

func closeOnce(channel chan struct{}) {
	if !isClosed(channel) {
		close(channel)
	}
}

// follow notes that a watch reports every deletion from now on.
func (d *deletions) follow() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.followers++
}

// unfollow notes that a watch does not report every deletion any more, or not soon.
func (d *deletions) unfollow() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.followers--; d.followers > 0 {
		return
	}
	for _, pending := range d.byUID {
		pending.reportLocked("")
	}
}

var errNotReported = errors.New("no watch of this replica is left that would report the deletion")

// await returns the version of a deletion.
func (d *deletion) await(ctx context.Context) (version string, _ error) {
	ctx, cancel := context.WithTimeout(ctx, deletionTimeout)
	defer cancel()
	select {
	case <-d.reported:
		if d.version == "" {
			return "", errNotReported
		}
		return d.version, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
