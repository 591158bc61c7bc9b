// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sighting

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// minStep is how much later a hub has to see a silent cluster than before. Replicas of the hub
// saw it last at slightly different times. One that was seen again is connected, or was silent
// for longer.
const minStep = 10 * time.Second

// Relayed is when a cluster that a hub relays was last seen. What the hub says is a time of
// another clock, so that only whether it says a later one than before counts.
type Relayed struct {
	UID types.UID
	// Seen is when the cluster was last seen, as a time of this process.
	Seen time.Time
	// newest is the latest time that the hub said since it was last connected to the cluster:
	// its clock may have been ahead before.
	newest time.Time
	// Back is since when the hub has shown the cluster, which was lost, as one that it has not
	// read since; zero if it does not.
	Back time.Time
}

// Observe returns what is known after a hub said when it last saw a cluster, and whether it is
// connected to it. Only of a cluster that was not known before, the time itself counts.
func (r Relayed) Observe(uid types.UID, said time.Time, connected bool, now time.Time) Relayed {
	next := Relayed{UID: uid, Seen: r.Seen, newest: said}
	switch {
	case connected:
		next.Seen = now
	case r.UID != uid || r.Seen.IsZero():
		next.Seen = here(said, now)
	case !r.newest.IsZero() && said.Sub(r.newest) >= minStep:
		next.Seen = now
	}
	if r.UID == uid && !connected && r.newest.After(said) {
		next.newest = r.newest
	}
	return next
}

// Rebase returns what is known after the clock of this process may have been set back.
func (r Relayed) Rebase(now time.Time) Relayed {
	r.Seen, r.Back = Rebase(r.Seen, now), Rebase(r.Back, now)
	return r
}
