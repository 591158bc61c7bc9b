// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"slices"
	"time"
)

const (
	// rememberedAge is how long an issued version is remembered. It exceeds the
	// time for which the watch cache guarantees to keep events, so that the watch
	// cache determines how far back a watch can start.
	rememberedAge = 5 * time.Minute
	// rememberedCount bounds memory use when many objects change. The watch cache
	// keeps fewer events, so that it remains the limiting factor.
	rememberedCount = 128 * 1024
)

// issuedVersions remembers recently issued versions, which must be added in
// ascending order. It is not safe for concurrent use.
type issuedVersions struct {
	versions []uint64
}

// add remembers a version and drops versions beyond the limits.
func (v *issuedVersions) add(version uint64) {
	v.versions = append(v.versions, version)
	// Expired versions may stay for a while, because contains ignores them;
	// dropping them occasionally is cheaper than with every version.
	if len(v.versions) < 2*v.keep(version) {
		return
	}
	v.versions = slices.Clone(v.versions[len(v.versions)-v.keep(version):])
}

// keep returns the number of unexpired versions, at most rememberedCount.
func (v *issuedVersions) keep(newest uint64) int {
	oldest, _ := slices.BinarySearch(v.versions, lowestVersionAt(IssuedAt(newest).Add(-rememberedAge)))
	return min(len(v.versions)-oldest, rememberedCount)
}

// contains reports whether the version was issued and has not expired.
func (v *issuedVersions) contains(version uint64, now time.Time) bool {
	if version < lowestVersionAt(now.Add(-rememberedAge)) {
		return false
	}
	_, found := slices.BinarySearch(v.versions, version)
	return found
}
