// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"slices"
	"time"
)

const (
	// rememberedAge is how long a version is known after it was issued. It
	// is longer than the watch cache is sure to keep the events behind a
	// version, so that it is the cache that decides how far back one can go.
	rememberedAge = 5 * time.Minute
	// rememberedCount bounds the memory in a storm of changes. The watch
	// cache keeps fewer events than that, so it forgets first here too.
	rememberedCount = 128 * 1024
)

// ledger remembers the versions that were issued lately. They arrive in
// ascending order. It is not safe for concurrent use.
type ledger struct {
	versions []uint64
}

// add remembers a version and forgets those that are too old or too many.
func (l *ledger) add(version uint64) {
	l.versions = append(l.versions, version)
	// A version from before the age limit makes no difference to anybody,
	// because of knows. Cutting now and then is cheaper than with every
	// version.
	if len(l.versions) < 2*l.keep(version) {
		return
	}
	l.versions = slices.Clone(l.versions[len(l.versions)-l.keep(version):])
}

// keep returns how many of the versions are young enough, of which there are
// no more than rememberedCount.
func (l *ledger) keep(newest uint64) int {
	oldest, _ := slices.BinarySearch(l.versions, lowestVersionAt(issuedAt(newest).Add(-rememberedAge)))
	return min(len(l.versions)-oldest, rememberedCount)
}

// knows says whether the version was issued, and not too long ago.
func (l *ledger) knows(version uint64, now time.Time) bool {
	if version < lowestVersionAt(now.Add(-rememberedAge)) {
		return false
	}
	_, found := slices.BinarySearch(l.versions, version)
	return found
}
