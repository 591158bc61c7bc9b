// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// shown is for how long an import that has ended is shown again.
const shown = 500 * time.Millisecond

// death returns the line in which client 1 of a cluster sees the end of an import, and the version
// that it knows some time later, if it watches then, and sees nothing else for a moment.
func (b *testbed) death(after time.Duration) (ended history.Entry, version int, found bool) {
	for _, cluster := range b.clusters {
		lines := b.watching(cluster, history.Imports, "1")
		for _, entry := range lines {
			at := entry.At.Add(after)
			next := slices.IndexFunc(lines, func(other history.Entry) bool { return other.At.After(at) })
			if entry.Watch.Type != history.Deleted || next < 0 || lines[next].At.Before(at.Add(2*shown)) {
				continue
			}
			version, err := strconv.Atoi(lines[next-1].Watch.ResourceVersion)
			if _, open := b.viewAt(cluster, history.Imports, "1", at); err == nil && open {
				return entry, version, true
			}
		}
	}
	return history.Entry{}, 0, false
}

// showAgain lets client 1 see an import that has ended again, in a list or an event, until its end
// is reported to it.
func (b *testbed) showAgain(ended history.Entry, after time.Duration, version int, listed bool) {
	w, at := ended.Watch, ended.At.Add(after)
	seen := history.Watch{Cluster: w.Cluster, Resource: w.Resource, Client: w.Client, Type: history.Added, ResourceVersion: strconv.Itoa(version + 1), Object: w.Object}
	if listed {
		seen.Type, seen.Object = history.Listed, nil
		view, _ := b.viewAt(w.Cluster, w.Resource, w.Client, at)
		for _, object := range view {
			if keyOf(object) != keyOf(*w.Object) {
				seen.Items = append(seen.Items, object)
			}
		}
		seen.Items = append(seen.Items, *w.Object)
	}
	again := *w
	again.ResourceVersion = strconv.Itoa(version + 2)
	b.insert(at, history.Entry{Watch: &seen})
	b.insert(at.Add(shown), history.Entry{Watch: &again})
}

// A server that is behind may show an import that has ended elsewhere to a client that lists again,
// for as long as a change takes. The server that has reported the end does not.
func TestEndedImportIsShownByAnotherServerForAWhileOnly(t *testing.T) {
	for _, test := range []struct {
		name   string
		after  time.Duration
		listed bool
		reused bool
	}{
		{"list of a server that is behind", time.Second, true, false},
		{"list after a long time", 12 * time.Second, true, true},
		{"event of the same watch", time.Second, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			places := 0
			for seed := uint64(0); seed < 60 && places < enough; seed++ {
				bed := calm(seed)
				ended, version, found := bed.death(test.after)
				if !found {
					continue
				}
				bed.showAgain(ended, test.after, version, test.listed)
				places++
				entries := bed.history()
				violations := violationsOf(t, entries)
				reused := slices.ContainsFunc(violations, func(violation Violation) bool { return violation.Kind == UIDReused })
				if reused != test.reused {
					t.Errorf("seed %d: reported %t, want %t", seed, reused, test.reused)
				}
			}
			if places < enough {
				t.Errorf("only %d histories have a place for it", places)
			}
		})
	}
}
