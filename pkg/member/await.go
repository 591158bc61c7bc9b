// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"
)

const (
	// recordedGrace is how long a server that starts waits for members whose exports
	// are recorded: the latest may not be.
	recordedGrace = 5 * time.Second
	// unknownGrace is how long it waits for members of which nothing or not everything
	// is recorded, although they were seen before: the records are of another version,
	// damaged or lost.
	unknownGrace = 10 * time.Second
	// awaitPoll is how often it looks whether they were read.
	awaitPoll = 50 * time.Millisecond
)

// awaitMembers waits a while for members that may export more than is recorded, so that
// it does not look as if they had withdrawn it. It reports false if the context ended.
func (s *Set) awaitMembers(ctx context.Context) bool {
	logger := klog.FromContext(ctx)
	start := s.config.Clock.Now()
	var unread []string
	for ctx.Err() == nil {
		waited := s.config.Clock.Since(start)
		before := unread
		if unread = s.unread(waited); len(unread) == 0 {
			if len(before) > 0 && waited >= recordedGrace {
				logger.Info("Members were not read in time, some of their exports are unknown until they are", "clusters", before)
			}
			return true
		}
		select {
		case <-ctx.Done():
		case <-s.config.Clock.After(awaitPoll):
		}
	}
	return false
}

// unread returns the members, sorted, that have not been read yet and for which a server
// that has waited for a while should wait. It does not wait for those that are new, or that
// were lost before it started, unless endpoints of them may be kept that are not recorded.
func (s *Set) unread(waited time.Duration) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var unread []string
	for _, p := range s.peers {
		seen, known := s.sightings[p.id]
		grace := recordedGrace
		if p.unrecordedLocked() {
			grace = unknownGrace
		}
		switch {
		case p.acceptance.Refused(), p.acceptance.Accepted && p.read:
		case !known, !p.remembered && !p.unrecordedLocked():
		case seen.Lost && seen.UID == p.uid && !p.unrecordedLocked():
		case waited < grace:
			unread = append(unread, p.id)
		}
	}
	slices.Sort(unread)
	return unread
}
