// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// readerWindow is how long a cluster counts as a reader after a request: a few probes.
const readerWindow = time.Minute

// readers are the clusters that read from this one, with the time of their last
// request. There are no more than accounts of peers.
type readers map[string]time.Time

// observe records a request. It reports whether the cluster was not a reader before.
func (r readers) observe(id string, now time.Time) bool {
	seen, known := r[id]
	r[id] = now
	return !known || now.Sub(seen) >= readerWindow
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
