// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mcs-apiserver/mcs-apiserver/cmd/kubectl-mcs/app/printer"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/conditions"
)

// removed is shown as the state of a member that is not one any more.
const removed clustersetv1alpha1.MemberState = "Removed"

// change is a change of a member in the view of a cluster, and its first state.
type change struct {
	Context string `json:"context"`
	memberChange
}

// memberChange is what is shown of a member. When it was last seen is not a change.
type memberChange struct {
	Name      string                         `json:"name"`
	State     clustersetv1alpha1.MemberState `json:"state"`
	Exports   int32                          `json:"exports"`
	Endpoints int32                          `json:"endpoints"`
	Reason    string                         `json:"reason,omitempty"`
}

// changesOf returns what differs between two states of the members, and the new state by name.
func changesOf(before map[string]memberChange, all []clustersetv1alpha1.Member) ([]memberChange, map[string]memberChange) {
	var changes []memberChange
	now := map[string]memberChange{}
	for i := range all {
		status := &all[i].Status
		current := memberChange{
			Name: all[i].Name, State: status.State, Exports: status.Exports, Endpoints: status.Endpoints, Reason: strings.Join(conditions.Problems(status.Conditions), "; "),
		}
		now[current.Name] = current
		if before[current.Name] != current {
			changes = append(changes, current)
		}
	}
	for name := range before {
		if _, found := now[name]; !found {
			changes = append(changes, memberChange{Name: name, State: removed})
		}
	}
	slices.SortFunc(changes, func(a, b memberChange) int { return strings.Compare(a.Name, b.Name) })
	return changes, now
}

// watching prints changes as they come.
type watching struct {
	mu     sync.Mutex
	output *printer.Output
	out    io.Writer
	errOut io.Writer
	widths []int
	failed error
}

var watchTitles = []string{"CONTEXT", "MEMBER", "STATE", "EXPORTS", "ENDPOINTS", "REASON"}

// print prints changes. Columns get wider, never narrower.
func (w *watching) print(changes []change) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.output.Format != "" {
		for _, each := range changes {
			if err := w.output.Print(w.out, each, nil); err != nil {
				return err
			}
		}
		return nil
	}
	var rows [][]string
	if w.widths == nil {
		w.widths = make([]int, len(watchTitles))
		rows = append(rows, watchTitles)
	}
	for _, each := range changes {
		rows = append(rows, []string{each.Context, each.Name, string(each.State), strconv.Itoa(int(each.Exports)), strconv.Itoa(int(each.Endpoints)), each.Reason})
	}
	for _, row := range rows {
		for i, text := range row {
			row[i] = printer.Escape(text)
			w.widths[i] = max(w.widths[i], len([]rune(row[i])))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, text := range row[:len(row)-1] {
			fmt.Fprintf(&line, "%-*s   ", w.widths[i], text)
		}
		if _, err := fmt.Fprintln(w.out, strings.TrimRight(line.String()+row[len(row)-1], " ")); err != nil {
			return err
		}
	}
	return nil
}

// watch prints all members, and their changes until the context ends.
func (w *watching) watch(ctx context.Context, followers []*follower) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group sync.WaitGroup
	for _, f := range followers {
		var known map[string]memberChange
		var told string
		f.changed = func(all []clustersetv1alpha1.Member) {
			var changes []memberChange
			told = ""
			changes, known = changesOf(known, all)
			var shown []change
			for _, each := range changes {
				shown = append(shown, change{Context: f.Context, memberChange: each})
			}
			if len(shown) == 0 {
				return
			}
			if err := w.print(shown); err != nil {
				w.mu.Lock()
				w.failed = err // nobody reads it any more
				w.mu.Unlock()
				cancel()
			}
		}
		f.failed = func(err error) {
			if err.Error() == told {
				return
			}
			told = err.Error()
			w.mu.Lock()
			defer w.mu.Unlock()
			fmt.Fprintf(w.errOut, "Warning: context %s: cannot query cluster: %s\n", f.Context, printer.Escape(told))
		}
		group.Go(func() { f.follow(ctx) })
	}
	group.Wait()
	return w.failed
}
