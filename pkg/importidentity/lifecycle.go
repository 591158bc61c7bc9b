// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package importidentity

import "time"

// Grace is how long a replica goes on showing a life that another replica has
// recorded as over, while the exports still exist here.
const Grace = 2 * time.Second

// Lifecycle is what one replica shows under one name over time. The zero value
// shows nothing.
type Lifecycle struct {
	shown *Identity
	// ended is set if the exports of the shown life did not exist at some time in
	// this replica. Its end is being recorded.
	ended bool
	// heard is when this replica heard that the shown life is over.
	heard time.Time
}

// Decision is what a replica has to do about one import.
type Decision struct {
	// Show is the identity to show the import with; nil unless it is exported.
	Show *Identity
	// Delete is set if the import is to be deleted. If neither Show nor Delete is
	// set, what is shown does not change.
	Delete bool
	// End is set if the end of this life is to be recorded.
	End *int64
	// Again is when to decide again, if nothing else changes until then.
	Again time.Duration
}

// Shown returns the identity of the import that is shown; nil if there is none.
func (l *Lifecycle) Shown() *Identity { return l.shown }

// Decide returns what to do. next is the identity with which the import would be
// added now; it is nil if this namespace has no imports, because it does not
// exist, or because the cluster is not in a ClusterSet. ending is set while the
// end of that life is being recorded.
func (l *Lifecycle) Decide(next *Identity, ending, exported bool, now time.Time) Decision {
	if l.shown != nil && next != nil && next.sameScope(*l.shown) && next.Life < l.shown.Life {
		next = l.shown // a life is never shown again
	}
	switch {
	case next == nil || !exported:
		return l.decideAbsent(next)
	case l.shown == nil && ending:
		return Decision{} // until the end is recorded
	case l.shown == nil || next.UID == l.shown.UID:
		return l.show(next)
	case l.ended || !next.sameScope(*l.shown):
		*l = Lifecycle{}
		return l.show(next)
	}
	return l.decideOver(next, now)
}

// decideAbsent decides about an import that is not exported. It may be deleted
// once no import can be added with its UID.
func (l *Lifecycle) decideAbsent(next *Identity) Decision {
	switch {
	case l.shown == nil:
		return Decision{}
	case next != nil && next.UID == l.shown.UID:
		l.ended = true
		return Decision{End: &l.shown.Life}
	}
	*l = Lifecycle{}
	return Decision{Delete: true}
}

// decideOver decides about an import that is exported although its life is over.
func (l *Lifecycle) decideOver(next *Identity, now time.Time) Decision {
	if l.heard.IsZero() {
		l.heard = now
	}
	if remaining := Grace - now.Sub(l.heard); remaining > 0 {
		return Decision{Show: l.shown, Again: remaining}
	}
	*l = Lifecycle{}
	return l.show(next)
}

func (l *Lifecycle) show(next *Identity) Decision {
	l.shown = next
	return Decision{Show: next}
}
