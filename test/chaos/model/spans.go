// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model states what a ClusterSet promises, in terms of a history: what was exported
// when, what clients may see of it when, and what an import is made of. It shares no code with
// the product, so that a mistake of one is not a mistake of the other.
package model

import (
	"slices"
	"time"
)

// Forever is after the end of every history.
var Forever = time.Date(9999, time.January, 1, 0, 0, 0, 0, time.UTC)

// Span is the time from From until just before To.
type Span struct{ From, To time.Time }

// Duration is the length of the span.
func (s Span) Duration() time.Duration { return s.To.Sub(s.From) }

// Spans are times: spans in ascending order that do not touch each other.
type Spans []Span

// Always is all the time.
func Always() Spans { return Spans{{time.Time{}, Forever}} }

// NewSpans returns the union of spans in any order.
func NewSpans(spans ...Span) Spans {
	sorted := slices.DeleteFunc(slices.Clone(spans), func(s Span) bool { return !s.From.Before(s.To) })
	slices.SortFunc(sorted, func(a, b Span) int { return a.From.Compare(b.From) })
	var union Spans
	for _, span := range sorted {
		if last := len(union) - 1; last >= 0 && !span.From.After(union[last].To) {
			if span.To.After(union[last].To) {
				union[last].To = span.To
			}
			continue
		}
		union = append(union, span)
	}
	return union
}

// Union returns the times of either.
func (s Spans) Union(other Spans) Spans { return NewSpans(slices.Concat(s, other)...) }

// Intersect returns the times of both.
func (s Spans) Intersect(other Spans) Spans {
	var both []Span
	for i, j := 0, 0; i < len(s) && j < len(other); {
		span := Span{s[i].From, s[i].To}
		if other[j].From.After(span.From) {
			span.From = other[j].From
		}
		if other[j].To.Before(span.To) {
			span.To = other[j].To
		}
		if span.From.Before(span.To) {
			both = append(both, span)
		}
		if s[i].To.Before(other[j].To) {
			i++
		} else {
			j++
		}
	}
	return both
}

// Complement returns all other times.
func (s Spans) Complement() Spans {
	var rest Spans
	from := time.Time{}
	for _, span := range s {
		if from.Before(span.From) {
			rest = append(rest, Span{from, span.From})
		}
		from = span.To
	}
	if from.Before(Forever) {
		rest = append(rest, Span{from, Forever})
	}
	return rest
}

// Subtract returns the times that are not in other.
func (s Spans) Subtract(other Spans) Spans { return s.Intersect(other.Complement()) }

// Contains reports whether a time is one of the spans.
func (s Spans) Contains(at time.Time) bool {
	_, ok := s.at(at)
	return ok
}

// Covers reports whether all times from one until another are in the spans.
func (s Spans) Covers(from, to time.Time) bool {
	span, ok := s.at(from)
	return ok && to.Before(span.To)
}

// at returns the span of a time.
func (s Spans) at(at time.Time) (Span, bool) {
	i, _ := slices.BinarySearchFunc(s, at, func(span Span, at time.Time) int {
		if span.To.After(at) {
			return 1
		}
		return -1
	})
	if i < len(s) && !s[i].From.After(at) {
		return s[i], true
	}
	return Span{}, false
}
