// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// Parts of a service in its own cluster.
const (
	namespace = "namespace"
	service   = "service"
	export    = "export"
	endpoints = "endpoints"
)

// register is a value in a cluster that changes assign. The empty value means that there is none.
type register struct {
	cluster string
	history.Service
	part string
}

// assignment is what a change does to a register: the register gets the value at some time
// between invoked and completed, or, unless it is certain, never.
type assignment struct {
	value              string
	invoked, completed time.Time
	certain            bool
	lines              []int
}

// Source is what was exported when, as far as the test can know.
type Source struct {
	run         history.Run
	assignments map[register][]assignment
	// addresses are all that a service ever had in a cluster.
	addresses map[register]map[string]bool
	services  map[history.Service]bool
	answers   map[question]Known
}

// NewSource returns what the changes of a history made.
func NewSource(run history.Run, entries []history.Entry) *Source {
	s := &Source{run: run, assignments: map[register][]assignment{}, addresses: map[register]map[string]bool{}, services: map[history.Service]bool{}, answers: map[question]Known{}}
	completions := map[int][]history.Entry{}
	for _, entry := range entries {
		if entry.Complete != nil {
			completions[entry.Complete.ID] = append(completions[entry.Complete.ID], entry)
		}
		if entry.Invoke != nil && entry.Invoke.Name != "" {
			s.services[entry.Invoke.Service] = true
		}
	}
	for _, entry := range entries {
		if entry.Invoke != nil {
			s.add(entry, completions[entry.Invoke.ID])
		}
	}
	return s
}

// add adds a change with its completions.
func (s *Source) add(invoked history.Entry, completions []history.Entry) {
	// Without an answer, it may happen until the request times out.
	a := assignment{invoked: invoked.At, completed: invoked.At.Add(s.run.RequestTimeout), lines: []int{invoked.Line}}
	unknown := false
	for _, entry := range completions {
		a.lines = append(a.lines, entry.Line)
		switch entry.Complete.Outcome {
		case history.OK:
			a.completed, a.certain = entry.At, true
		case history.Unknown:
			unknown = true
		case history.Fail:
			if !unknown {
				return
			}
		}
	}
	change := *invoked.Invoke
	assign := func(service history.Service, part, value string) {
		a := a
		a.value = value
		r := register{change.Cluster, service, part}
		s.assignments[r] = append(s.assignments[r], a)
	}
	inNamespace := history.Service{Namespace: change.Namespace}
	switch change.Operation {
	case history.CreateNamespace:
		assign(inNamespace, namespace, "exists")
	case history.DeleteNamespace:
		assign(inNamespace, namespace, "")
		for other := range s.services {
			if other.Namespace == change.Namespace {
				for _, part := range []string{service, export, endpoints} {
					assign(other, part, "")
				}
			}
		}
	case history.CreateService:
		assign(change.Service, service, encode(change.Spec))
	case history.DeleteService:
		assign(change.Service, service, "")
	case history.Export:
		assign(change.Service, export, "exists")
	case history.Unexport:
		assign(change.Service, export, "")
	case history.SetEndpoints:
		assign(change.Service, endpoints, strings.Join(change.Endpoints, ","))
		r := register{change.Cluster, change.Service, endpoints}
		if s.addresses[r] == nil {
			s.addresses[r] = map[string]bool{}
		}
		for _, address := range change.Endpoints {
			s.addresses[r][address] = true
		}
	}
}

func encode(spec *history.Spec) string {
	text, err := json.Marshal(spec)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Services returns all services of the history.
func (s *Source) Services() []history.Service {
	var all []history.Service
	for service := range s.services {
		all = append(all, service)
	}
	slices.SortFunc(all, func(a, b history.Service) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// Addresses returns all addresses that a service ever had in a cluster.
func (s *Source) Addresses(cluster string, of history.Service) []string {
	var all []string
	for address := range s.addresses[register{cluster, of, endpoints}] {
		all = append(all, address)
	}
	slices.Sort(all)
	return all
}

// Lines returns the lines of the last changes of a service in a cluster that began until a time.
func (s *Source) Lines(cluster string, of history.Service, until time.Time) []int {
	var lines []int
	for _, r := range parts(cluster, of) {
		var last []int
		for _, a := range s.assignments[r] {
			if !a.invoked.After(until) {
				last = a.lines
			}
		}
		lines = append(lines, last...)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// parts returns what an export consists of.
func parts(cluster string, of history.Service) []register {
	return []register{
		{cluster, history.Service{Namespace: of.Namespace}, namespace},
		{cluster, of, service},
		{cluster, of, export},
		{cluster, of, endpoints},
	}
}

// Known is when something was certainly so, and when it was certainly not so. It may be either
// at any other time.
type Known struct {
	True, False Spans
	// parts are the times at which each of several properties was certainly not there, if
	// there are several.
	parts []Spans
}

// each returns when each property was certainly not there.
func (k Known) each() []Spans {
	if k.parts == nil {
		return []Spans{k.False}
	}
	return k.parts
}

// known returns when the value of a register certainly had a property.
func (s *Source) known(r register, property func(value string) bool) Known {
	var known Known
	times := []time.Time{{}}
	for _, a := range s.assignments[r] {
		times = append(times, a.invoked, a.completed)
	}
	slices.SortFunc(times, time.Time.Compare)
	times = append(slices.CompactFunc(times, time.Time.Equal), Forever)
	var yes, no []Span
	for i := range len(times) - 1 {
		span := Span{times[i], times[i+1]}
		if !span.From.Before(span.To) {
			continue
		}
		values := s.values(r, span.From)
		if !slices.ContainsFunc(values, func(value string) bool { return !property(value) }) {
			yes = append(yes, span)
		}
		if !slices.ContainsFunc(values, property) {
			no = append(no, span)
		}
	}
	known.True, known.False = NewSpans(yes...), NewSpans(no...)
	return known
}

// values returns the values that a register may have at a time: those of all changes that may
// have happened last.
func (s *Source) values(r register, at time.Time) []string {
	// A change is replaced if one began after it was complete, and is complete.
	var began time.Time
	for _, a := range s.assignments[r] {
		if a.certain && !a.completed.After(at) && a.invoked.After(began) {
			began = a.invoked
		}
	}
	var values []string
	if began.IsZero() {
		values = append(values, "")
	}
	for _, a := range s.assignments[r] {
		if !a.invoked.After(at) && a.completed.After(began) {
			values = append(values, a.value)
		}
	}
	return values
}

func exists(value string) bool { return value != "" }

// Namespace returns when a namespace exists in a cluster.
func (s *Source) Namespace(cluster, name string) Known {
	return s.known(register{cluster, history.Service{Namespace: name}, namespace}, exists)
}

// Exported returns when a cluster exports a service.
func (s *Source) Exported(cluster string, of history.Service) Known {
	return s.once(question{cluster, of, ""}, func() Known {
		known := Known{True: Always()}
		for _, r := range parts(cluster, of)[:3] {
			known = both(known, s.known(r, exists))
		}
		return known
	})
}

// Endpoint returns when a cluster exports an address of a service.
func (s *Source) Endpoint(cluster string, of history.Service, address string) Known {
	return s.once(question{cluster, of, address}, func() Known {
		return both(s.Exported(cluster, of), s.known(register{cluster, of, endpoints}, func(value string) bool {
			return slices.Contains(strings.Split(value, ","), address)
		}))
	})
}

// question is whether a cluster exports a service, or an address of it.
type question struct {
	cluster string
	history.Service
	address string
}

// once answers every question once.
func (s *Source) once(q question, answer func() Known) Known {
	known, ok := s.answers[q]
	if !ok {
		known = answer()
		s.answers[q] = known
	}
	return known
}

// both returns when two properties hold at the same time.
func both(a, b Known) Known {
	return Known{True: a.True.Intersect(b.True), False: a.False.Union(b.False), parts: slices.Concat(a.each(), b.each())}
}

// CanEndAs returns what is wrong with the final state of a service in its cluster, given the
// changes that were made, or nothing.
func (s *Source) CanEndAs(cluster string, final history.FinalService, at time.Time) string {
	spec, exported := "", ""
	if final.Spec != nil {
		spec = encode(final.Spec)
	}
	if !final.Exported.IsZero() {
		exported = "exists"
	}
	for _, test := range []struct{ part, value string }{
		{service, spec}, {export, exported}, {endpoints, strings.Join(final.Endpoints, ",")},
	} {
		possible := s.values(register{cluster, final.Service, test.part}, at)
		if !slices.Contains(possible, test.value) {
			return test.part + " is " + quote(test.value) + " in the end, but was changed to " + quote(possible...)
		}
	}
	return ""
}

func quote(values ...string) string {
	var quoted []string
	for _, value := range values {
		if value == "" {
			value = "absent"
		}
		quoted = append(quoted, value)
	}
	return strings.Join(quoted, " or ")
}
