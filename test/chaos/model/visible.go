// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

// Visibility is what clients of a cluster may and must see of another cluster, in view of the
// faults.
type Visibility struct {
	run    history.Run
	faults []fault
}

// fault is a fault with its begin and its end.
type fault struct {
	history.Fault
	Span
	lines []int
}

// NewVisibility returns the faults of a history.
func NewVisibility(run history.Run, entries []history.Entry) *Visibility {
	v := &Visibility{run: run}
	for _, entry := range entries {
		switch {
		case entry.Fault == nil:
		case !entry.Fault.End:
			v.faults = append(v.faults, fault{*entry.Fault, Span{entry.At, Forever}, []int{entry.Line}})
		default:
			for i := range v.faults {
				if v.faults[i].ID == entry.Fault.ID {
					v.faults[i].To = entry.At
					v.faults[i].lines = append(v.faults[i].lines, entry.Line)
				}
			}
		}
	}
	return v
}

// concerns reports whether a fault disturbs what a cluster sees of another, or of itself.
func (f fault) concerns(cluster, of string) bool {
	if len(f.Clusters) == 1 {
		return f.Clusters[0] == cluster || f.Clusters[0] == of
	}
	return cluster != of && slices.Contains(f.Clusters, cluster) && slices.Contains(f.Clusters, of)
}

// hides reports whether a fault may hide from a cluster that endpoints of another are alive:
// one of the link between them. Endpoints do not depend on the APIs of their cluster.
func (f fault) hides(cluster, of string) bool {
	return (f.Cut || f.Lossy) && cluster != of && f.concerns(cluster, of)
}

// during returns when there are faults, and for some time after each.
func (v *Visibility) during(after time.Duration, chosen func(fault) bool) Spans {
	var spans []Span
	for _, fault := range v.faults {
		if chosen(fault) {
			spans = append(spans, Span{fault.From, later(fault.To, after)})
		}
	}
	return NewSpans(spans...)
}

// disturbed returns when what a cluster sees of another is disturbed, recovery included.
func (v *Visibility) disturbed(cluster, of string) Spans {
	return v.during(v.run.Recovery, func(f fault) bool { return f.concerns(cluster, of) })
}

// maxLag is the longest time for which DNS and kube-proxy go on with what they know after an
// outage of an API that they watch. client-go waits for up to a minute before it connects again,
// and for as long before it lists if the server does not have the old version any more.
const maxLag = 2 * time.Minute

// Lagging returns when DNS and kube-proxy of a cluster may know less than other clients, because
// something failed in their cluster. How long they wait doubles with each attempt, so that it is
// up to twice as long as the outage, because of jitter, and that two times.
func (v *Visibility) Lagging(cluster string) Spans {
	var spans []Span
	for _, fault := range v.faults {
		if fault.concerns(cluster, cluster) {
			spans = append(spans, Span{fault.From, later(fault.To, min(maxLag, 4*fault.To.Sub(fault.From)))})
		}
	}
	return NewSpans(spans...)
}

func later(at time.Time, by time.Duration) time.Time {
	if at.Equal(Forever) {
		return Forever
	}
	return at.Add(by)
}

// Must returns when a cluster must see what is certainly so in another: when it has been so for
// the propagation delay, or since before a fault began that is not over.
func (v *Visibility) Must(cluster, of string, so Spans) Spans {
	disturbed := v.disturbed(cluster, of)
	var must []Span
	for _, span := range so {
		must = append(must, Span{v.arrived(disturbed, span.From), span.To})
	}
	return NewSpans(must...)
}

// MustNot returns when a cluster must see that something is not so in another. Changes of
// several objects may arrive in any order: if an endpoint is added soon after the export was
// deleted, it may be seen until the deletion has arrived. But the other cluster puts them
// together: what it knows not to be so was never sent to others.
func (v *Visibility) MustNot(cluster, of string, known Known) Spans {
	var arrived, there Spans
	for _, absent := range known.each() {
		arrived = arrived.Union(v.Must(cluster, of, absent))
		there = there.Union(v.Must(of, of, absent))
	}
	if cluster == of {
		return arrived
	}
	return arrived.Union(v.Must(cluster, of, there))
}

// arrived returns from when on a change of a time must have arrived.
func (v *Visibility) arrived(disturbed Spans, changed time.Time) time.Time {
	if changed.IsZero() {
		return changed
	}
	at := changed.Add(v.run.Propagation)
	for _, span := range disturbed {
		// Disturbed before it arrived: it arrives after the disturbance.
		if !span.From.After(at) && span.To.After(changed) {
			at = later(span.To, v.run.Propagation)
		}
	}
	return at
}

// Oldest returns how old what a cluster shows of itself at a time may be.
func (v *Visibility) Oldest(cluster string, at time.Time) time.Time {
	oldest := at.Add(-v.run.Propagation)
	for _, span := range slices.Backward(v.disturbed(cluster, cluster)) {
		if !span.From.After(at) && span.To.After(oldest) {
			oldest = span.From.Add(-v.run.Propagation)
		}
	}
	return oldest
}

// Withdrawn returns when a cluster may withdraw the endpoints of another: when its API may have
// been silent for the TTL, and its endpoints did not seem to answer when they were last asked;
// until they have been read or asked anew. An API alone that is silent is no reason.
func (v *Visibility) Withdrawn(cluster, of string) Spans {
	silent := v.during(v.run.Probing, func(f fault) bool { return f.concerns(cluster, of) })
	hidden := v.during(v.run.Looking, func(f fault) bool { return f.hides(cluster, of) })
	disturbed := v.during(v.run.Recovery, func(f fault) bool { return f.hides(cluster, of) || f.concerns(cluster, cluster) })
	var expired []Span
	for _, span := range silent {
		if from := span.From.Add(v.run.TTL - v.run.Probing); from.Before(span.To) {
			expired = append(expired, Span{from, span.To})
		}
	}
	var spans []Span
	for _, span := range hidden.Intersect(NewSpans(expired...)) {
		spans = append(spans, Span{span.From, v.arrived(disturbed, span.To)})
	}
	return NewSpans(spans...)
}

// MustBeWithdrawn returns when a cluster must have withdrawn the endpoints of another: neither
// its API nor its endpoints could be reached for the TTL, the endpoints were asked since, the
// result has propagated, and nothing else was wrong in the cluster itself.
func (v *Visibility) MustBeWithdrawn(cluster, of string) Spans {
	within := v.run.TTL + v.run.Looking + v.run.Propagation
	own := v.disturbed(cluster, cluster)
	var spans []Span
	for _, fault := range v.faults {
		// A cluster that was disturbed meanwhile may not have noticed when it began.
		if fault.Cut && fault.hides(cluster, of) && fault.To.Sub(fault.From) > within && len(own.Intersect(Spans{fault.Span})) == 0 {
			spans = append(spans, Span{fault.From.Add(within), fault.To})
		}
	}
	return NewSpans(spans...)
}

// Lines returns the lines of faults that concern what a cluster sees of another at a time.
func (v *Visibility) Lines(cluster, of string, at time.Time) []int {
	var lines []int
	for _, fault := range v.faults {
		if fault.concerns(cluster, of) && !fault.From.After(at) && later(fault.To, v.run.Recovery).After(at) {
			lines = append(lines, fault.lines...)
		}
	}
	return lines
}
