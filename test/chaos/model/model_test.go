// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/mcs-apiserver/mcs-apiserver/test/chaos/history"
)

var start = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

func second(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

func span(from, to int) Span { return Span{second(from), second(to)} }

// R321: the oldest export wins, ties go to the cluster that comes first, and ports are united.
func TestOldestExportWins(t *testing.T) {
	port := func(name string, number int32) history.Port {
		return history.Port{Name: name, Protocol: "TCP", Port: number}
	}
	exports := []Export{
		{"west", second(1), history.Spec{Headless: true, Ports: []history.Port{port("http", 80), port("own", 90)}}},
		{"north", second(0), history.Spec{Ports: []history.Port{port("web", 80), port("alt", 81)}}},
		{"east", second(0), history.Spec{SessionAffinity: "ClientIP", Ports: []history.Port{port("http", 80), port("alt", 82)}}},
	}
	want := history.Import{
		Spec:     history.Spec{SessionAffinity: "ClientIP", Ports: []history.Port{port("alt", 82), port("http", 80), port("own", 90)}},
		Clusters: []string{"east", "north", "west"},
	}
	for range 3 {
		exports = append(exports[1:], exports[0])
		if got := Merge(exports); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestSpans(t *testing.T) {
	spans := NewSpans(span(5, 7), span(1, 3), span(3, 4), span(6, 9), span(2, 2))
	if want := (Spans{span(1, 4), span(5, 9)}); !slices.Equal(spans, want) {
		t.Errorf("union is %v, want %v", spans, want)
	}
	if got, want := spans.Intersect(Spans{span(2, 6), span(8, 20)}), (Spans{span(2, 4), span(5, 6), span(8, 9)}); !slices.Equal(got, want) {
		t.Errorf("intersection is %v, want %v", got, want)
	}
	if got, want := spans.Subtract(Spans{span(2, 6)}), (Spans{span(1, 2), span(6, 9)}); !slices.Equal(got, want) {
		t.Errorf("difference is %v, want %v", got, want)
	}
	if !spans.Contains(second(5)) || spans.Contains(second(4)) || !spans.Covers(second(5), second(8)) || spans.Covers(second(3), second(6)) {
		t.Error("wrong times are contained")
	}
}

// exported returns when a service is certainly exported, and certainly not, if its export and
// its end have the given outcomes at the times 20 and 40.
func exported(outcomes ...history.Entry) Known {
	of := history.Service{Namespace: "shop", Name: "web"}
	change := func(id int, operation string) history.Entry {
		return history.Entry{At: second(id), Invoke: &history.Change{ID: id, Cluster: "east", Operation: operation, Service: of, Spec: &history.Spec{}}}
	}
	namespace := change(1, history.CreateNamespace)
	namespace.Invoke.Name = ""
	entries := []history.Entry{namespace, complete(1, 2, history.OK), change(3, history.CreateService), complete(3, 4, history.OK), change(20, history.Export), change(40, history.Unexport)}
	return NewSource(history.Run{RequestTimeout: 30 * time.Second}, append(entries, outcomes...)).Exported("east", of)
}

func complete(id, at int, outcome string) history.Entry {
	return history.Entry{At: second(at), Complete: &history.Completion{ID: id, Outcome: outcome}}
}

// R321: a change without an answer may happen until the request times out, or never.
func TestOutcomesDecideWhatIsKnown(t *testing.T) {
	before, after := Span{time.Time{}, second(20)}, Span{second(42), Forever}
	for _, test := range []struct {
		name     string
		outcomes []history.Entry
		want     Known
	}{
		{"ok", []history.Entry{complete(20, 21, history.OK), complete(40, 42, history.OK)}, Known{Spans{span(21, 40)}, Spans{before, after}}},
		{"failed", []history.Entry{complete(20, 21, history.Fail), complete(40, 42, history.OK)}, Known{nil, Always()}},
		{"found out", []history.Entry{complete(20, 21, history.Unknown), complete(20, 25, history.OK), complete(40, 42, history.Fail)}, Known{Spans{{second(25), Forever}}, Spans{before}}},
		{"may happen later than the next", []history.Entry{complete(20, 21, history.Unknown), complete(20, 25, history.Fail), complete(40, 42, history.OK)}, Known{nil, Spans{before}}},
		{"never answered", []history.Entry{complete(20, 21, history.OK), complete(40, 42, history.Unknown)}, Known{Spans{span(21, 40)}, Spans{before}}},
	} {
		if got := exported(test.outcomes...); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// R321: what is exported must be seen after the propagation delay, and after the recovery of a
// fault in between. What was exported before must be seen all the time.
func TestFaultsDelayWhatMustBeSeen(t *testing.T) {
	run := history.Run{TTL: 60 * time.Second, Propagation: 5 * time.Second, Recovery: 10 * time.Second}
	fault := history.Fault{ID: 1, Clusters: []string{"east", "west"}, Cut: true}
	end := fault
	end.End = true
	v := NewVisibility(run, []history.Entry{{At: second(100), Fault: &fault}, {At: second(190), Fault: &end}})
	for _, test := range []struct {
		cluster, of string
		from        int
		want        int
	}{
		{"east", "west", 50, 55}, {"east", "west", 96, 205}, {"west", "east", 150, 205}, {"west", "east", 195, 205}, {"west", "east", 201, 206},
		{"east", "north", 150, 155}, {"east", "east", 150, 155},
	} {
		if got := v.Must(test.cluster, test.of, Spans{span(test.from, 300)}); !slices.Equal(got, Spans{span(test.want, 300)}) {
			t.Errorf("%s must see what %s exports from %d on at %v, want from %d on", test.cluster, test.of, test.from, got, test.want)
		}
	}
	if got, want := v.Withdrawn("east", "west"), (Spans{span(145, 210)}); !slices.Equal(got, want) {
		t.Errorf("endpoints may be withdrawn at %v, want %v", got, want)
	}
	if got, want := v.MustBeWithdrawn("west", "east"), (Spans{span(180, 190)}); !slices.Equal(got, want) {
		t.Errorf("endpoints must be withdrawn at %v, want %v", got, want)
	}
	if got := append(v.Withdrawn("east", "north"), v.MustBeWithdrawn("east", "east")...); len(got) > 0 {
		t.Errorf("endpoints of others may be withdrawn at %v", got)
	}
}
