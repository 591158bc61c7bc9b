// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// readerWindow is how long a cluster counts as a reader after a request: a few probes.
	readerWindow = time.Minute
	maxReaders   = 1000
)

// readers are the clusters that read from this one, with the time of their last
// request.
type readers map[string]time.Time

// observe records a request. It reports whether the cluster was not a reader before.
func (r readers) observe(id string, now time.Time) bool {
	seen, known := r[id]
	known = known && now.Sub(seen) < readerWindow
	r[id] = now
	if !known && len(r) > maxReaders {
		delete(r, slices.MinFunc(slices.Collect(maps.Keys(r)), func(a, b string) int { return r[a].Compare(r[b]) }))
	}
	return !known
}

// unlisted returns the readers that are not among the members, sorted.
func (r readers) unlisted(self string, members sets.Set[string], now time.Time) []string {
	var unlisted []string
	for id, seen := range r {
		if !members.Has(id) && id != self && now.Sub(seen) < readerWindow {
			unlisted = append(unlisted, id)
		}
	}
	slices.Sort(unlisted)
	return unlisted
}
