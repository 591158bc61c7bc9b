// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/model"
)

// checker is a history and what is known about it.
type checker struct {
	run      history.Run
	entries  []history.Entry
	source   *model.Source
	visible  *model.Visibility
	clients  []*client
	clusters []string
	expected map[place]expectation
	violations
}

// Check returns all violations of a history, in the order of their times.
func Check(entries []history.Entry) ([]Violation, error) {
	c, err := newChecker(entries)
	if err != nil {
		return nil, err
	}
	c.checkWatches()
	c.checkPresence()
	c.checkUIDs()
	c.checkIPs()
	c.checkTraffic()
	c.checkEnd()
	return c.sorted(), nil
}

func newChecker(entries []history.Entry) (*checker, error) {
	if len(entries) == 0 || entries[0].Run == nil {
		return nil, errors.New("the history does not begin with a run: record one first")
	}
	run := *entries[0].Run
	return &checker{
		run: run, entries: entries, clusters: run.Clusters, clients: replay(entries),
		source: model.NewSource(run, entries), visible: model.NewVisibility(run, entries),
		expected: map[place]expectation{}, violations: violations{map[[3]string]Violation{}},
	}, nil
}

// Summary counts what a history contains.
type Summary struct {
	Changes, Unknown, Events, Reads, Lookups, Connections, FailedConnections int
	// Faults are those of each kind.
	Faults map[string]int
}

func (s Summary) String() string {
	total := 0
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(s.Faults)) {
		total += s.Faults[kind]
		kinds = append(kinds, fmt.Sprintf("%d %s", s.Faults[kind], kind))
	}
	return fmt.Sprintf("%d changes (%d unknown), %d events, %d reads, %d lookups, %d connections (%d failed), %d faults (%s)",
		s.Changes, s.Unknown, s.Events, s.Reads, s.Lookups, s.Connections, s.FailedConnections, total, strings.Join(kinds, ", "))
}

// Summarize counts the entries of a history.
func Summarize(entries []history.Entry) Summary {
	s := Summary{Faults: map[string]int{}}
	for _, entry := range entries {
		switch {
		case entry.Invoke != nil:
			s.Changes++
		case entry.Complete != nil && entry.Complete.Outcome == history.Unknown:
			s.Unknown++
		case entry.Fault != nil && !entry.Fault.End:
			s.Faults[entry.Fault.Kind]++
		case entry.Watch != nil && entry.Watch.Type == history.Listed:
			s.Reads++
		case entry.Watch != nil && entry.Watch.Object != nil:
			s.Events++
		case entry.Lookup != nil:
			s.Lookups++
		case entry.Connection != nil:
			s.Connections++
			if entry.Connection.Error != "" {
				s.FailedConnections++
			}
		}
	}
	return s
}
