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
	// ended are those that have succeeded, the oldest first.
	ended []*deletion
	// followers is how many watches report every deletion.
	followers int
}

// deletion is one of a wrapper.
type deletion struct {
	uid types.UID
	at  time.Time
	// reported is closed when the version is known, or when nobody is left who would report it.
	reported chan struct{}
	version  string
	closed   bool
}

func newDeletions() *deletions { return &deletions{byUID: map[types.UID]*deletion{}} }

// begin notes that a wrapper is being deleted, and reports whether a watch will report it.
func (d *deletions) begin(uid types.UID) (_ *deletion, followed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	begun := &deletion{uid: uid, reported: make(chan struct{})}
	d.byUID[uid] = begun
	return begun, d.followers > 0
}

// end notes whether a wrapper was deleted.
func (d *deletions) end(ended *deletion, succeeded bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for len(d.ended) > 0 && now.Sub(d.ended[0].at) > deletionMemory {
		d.forgetLocked(d.ended[0])
		d.ended = d.ended[1:]
	}
	if !succeeded {
		d.forgetLocked(ended)
		return
	}
	ended.at = now
	d.ended = append(d.ended, ended)
}

func (d *deletions) forgetLocked(forgotten *deletion) {
	if d.byUID[forgotten.uid] == forgotten { // others may have begun meanwhile
		delete(d.byUID, forgotten.uid)
	}
}

// own reports whether a wrapper is one that this replica has deleted, or is about to.
func (d *deletions) own(uid types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byUID[uid] != nil
}

// report notes the version of a deletion, and reports whether it is one of this replica.
func (d *deletions) report(uid types.UID, version string) (own bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	reported := d.byUID[uid]
	if reported == nil {
		return false
	}
	reported.reportLocked(version)
	return true
}

func (d *deletion) reportLocked(version string) {
	if !d.closed {
		d.version, d.closed = version, true
		close(d.reported)
	}
}

// follow notes that a watch reports every deletion from now on, until the returned function is called.
func (d *deletions) follow() (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.followers++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.followers--; d.followers > 0 {
			return
		}
		for _, pending := range d.byUID {
			pending.reportLocked("")
		}
	}
}

var errNotReported = errors.New("the watches of this replica ended before the deletion was reported")

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
