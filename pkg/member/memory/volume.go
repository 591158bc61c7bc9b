// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import "time"

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
