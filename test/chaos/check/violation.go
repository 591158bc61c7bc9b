// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check decides from a history whether a ClusterSet kept its promises.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// Kinds of violations.
const (
	// Ended: a cluster did not end at what is exported.
	Ended = "ended differently"
	// Lost: what was exported never arrived, or was lost where it was exported.
	Lost = "lost"
	// Vanished: an import, an endpoint, a name or a response vanished although it was exported.
	Vanished = "vanished early"
	// Stale: an import, an endpoint, a name or a response outlived what was exported.
	Stale = "stale"
	// VersionWentBack: a resourceVersion was not greater than an earlier one of a watch.
	VersionWentBack = "version went back"
	// MissedEvent: a watch did not report a change.
	MissedEvent = "missed event"
	// UIDChanged: an import changed its UID although it was exported all the time.
	UIDChanged = "UID changed"
	// UIDReused: a UID was that of another import before.
	UIDReused = "UID reused"
	// IPShared: two services had one ClusterSet IP.
	IPShared = "IP shared"
	// WrongAnswer: DNS answered with an address that the service never had.
	WrongAnswer = "wrong answer"
)

// Violation is a promise that was not kept.
type Violation struct {
	Kind string
	// Cluster is the cluster in which a client saw it.
	Cluster string
	At      time.Time
	// Subject is the service, endpoint or object concerned.
	Subject string
	Message string
	// Lines are the relevant lines of the history.
	Lines []int
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s in %s at %s: %s", v.Kind, v.Subject, v.Cluster, v.At.UTC().Format("15:04:05.000"), v.Message)
}

// Describe returns a violation with the relevant lines of its history.
func Describe(v Violation, entries []history.Entry) string {
	text := []string{v.String()}
	for _, line := range v.Lines {
		if line > 0 && line <= len(entries) {
			text = append(text, fmt.Sprintf("  line %d: %.600s", line, entries[line-1]))
		}
	}
	return strings.Join(text, "\n")
}

// violations collects violations, one for each kind, cluster and subject: the first.
type violations struct {
	found map[[3]string]Violation
}

func (v *violations) add(violation Violation) {
	key := [3]string{violation.Kind, violation.Cluster, violation.Subject}
	slices.Sort(violation.Lines)
	violation.Lines = slices.Compact(violation.Lines)
	if earlier, ok := v.found[key]; !ok || violation.At.Before(earlier.At) {
		v.found[key] = violation
	}
}

// sorted returns the violations by time.
func (v *violations) sorted() []Violation {
	var all []Violation
	for _, violation := range v.found {
		all = append(all, violation)
	}
	slices.SortFunc(all, func(a, b Violation) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Cluster, b.Cluster), strings.Compare(a.Subject, b.Subject))
	})
	return all
}
