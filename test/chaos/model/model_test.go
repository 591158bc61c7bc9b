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
		{"ok", []history.Entry{complete(20, 21, history.OK), complete(40, 42, history.OK)}, Known{True: Spans{span(21, 40)}, False: Spans{before, after}}},
		{"failed", []history.Entry{complete(20, 21, history.Fail), complete(40, 42, history.OK)}, Known{False: Always()}},
		{"found out", []history.Entry{complete(20, 21, history.Unknown), complete(20, 25, history.OK), complete(40, 42, history.Fail)}, Known{True: Spans{{second(25), Forever}}, False: Spans{before}}},
		{"may happen later than the next", []history.Entry{complete(20, 21, history.Unknown), complete(20, 25, history.Fail), complete(40, 42, history.OK)}, Known{False: Spans{before}}},
		{"never answered", []history.Entry{complete(20, 21, history.OK), complete(40, 42, history.Unknown)}, Known{True: Spans{span(21, 40)}, False: Spans{before}}},
	} {
		if got := exported(test.outcomes...); !slices.Equal(got.True, test.want.True) || !slices.Equal(got.False, test.want.False) {
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
}

// R321: an endpoint that is added when the export is gone was never exported. It may be seen
// nevertheless until the deletion of the export has arrived.
func TestChangesOfSeveralObjectsArriveInAnyOrder(t *testing.T) {
	v := NewVisibility(history.Run{Propagation: 5 * time.Second}, nil)
	export := Known{True: Spans{span(0, 100)}, False: Spans{span(100, 300)}}
	endpoint := Known{True: Spans{span(102, 300)}, False: Spans{span(0, 102)}}
	if got, want := v.MustNot("west", "east", both(export, endpoint)), (Spans{span(5, 102), span(105, 300)}); !slices.Equal(got, want) {
		t.Errorf("must not be seen at %v, want %v", got, want)
	}

	// It may have been sent meanwhile, and the deletion not arrive because of a fault. If it is
	// added when the deletion has arrived in its own cluster, it is not sent.
	cut := faultAt(1, 90, 190, history.Fault{Clusters: []string{"east", "west"}, Cut: true})
	v = NewVisibility(history.Run{Propagation: 5 * time.Second}, cut)
	for added, want := range map[int]Spans{102: {span(10, 102), span(195, 300)}, 106: {span(10, 300)}} {
		endpoint := Known{True: Spans{span(added, 300)}, False: Spans{span(0, added)}}
		if got := v.MustNot("west", "east", both(export, endpoint)); len(got) == 0 || got[0].From.After(second(10)) || !slices.Equal(got[1:], want[1:]) || got[0].To != want[0].To {
			t.Errorf("added at %d: must not be seen at %v, want %v", added, got, want)
		}
	}
}

// faultAt returns the lines of a fault.
func faultAt(id, from, to int, fault history.Fault) []history.Entry {
	fault.ID = id
	end := fault
	end.End = true
	return []history.Entry{{At: second(from), Fault: &fault}, {At: second(to), Fault: &end}}
}

// R325, R358: endpoints may be withdrawn if the API was silent for the TTL and the endpoints did
// not answer when they were asked, and not because of the API alone. They must be withdrawn if
// neither could be reached for the TTL and the time that it takes to find out, in either
// direction.
func TestEndpointsDecideAfterTheTTL(t *testing.T) {
	run := history.Run{TTL: 60 * time.Second, Probing: 10 * time.Second, Looking: 20 * time.Second, Propagation: 5 * time.Second, Recovery: 30 * time.Second}
	link, api, own := []string{"east", "west"}, []string{"west"}, []string{"east"}
	cut, lossy := history.Fault{Clusters: link, Cut: true}, history.Fault{Clusters: link, Lossy: true}
	for _, test := range []struct {
		name      string
		entries   []history.Entry
		may, must Spans
	}{
		{"long cut", faultAt(1, 100, 200, cut), Spans{span(150, 235)}, Spans{span(185, 200)}},
		{"cut that is too short to be noticed", faultAt(1, 100, 130, cut), nil, nil},
		{"cut that is too short to be certain", faultAt(1, 100, 184, cut), Spans{span(150, 219)}, nil},
		{"API that is down", faultAt(1, 100, 400, history.Fault{Clusters: api}), nil, nil},
		{"credential that has expired", faultAt(1, 100, 400, history.Fault{Clusters: link}), nil, nil},
		{"cut while the API is down", slices.Concat(faultAt(1, 100, 400, history.Fault{Clusters: api}), faultAt(2, 170, 175, cut)), Spans{span(170, 210)}, nil},
		{"cut before the API was down for long", slices.Concat(faultAt(1, 100, 400, history.Fault{Clusters: api}), faultAt(2, 110, 125, cut)), nil, nil},
		{"loss while the API is down", slices.Concat(faultAt(1, 100, 400, history.Fault{Clusters: api}), faultAt(2, 170, 175, lossy)), Spans{span(170, 210)}, nil},
		{"long cut from a cluster with a problem", slices.Concat(faultAt(1, 100, 200, cut), faultAt(2, 75, 80, history.Fault{Clusters: own})), Spans{span(150, 235)}, nil},
	} {
		entries := slices.SortedFunc(slices.Values(test.entries), func(a, b history.Entry) int { return a.At.Compare(b.At) })
		v := NewVisibility(run, entries)
		if got := v.Withdrawn("east", "west"); !slices.Equal(got, test.may) {
			t.Errorf("%s: endpoints may be withdrawn at %v, want %v", test.name, got, test.may)
		}
		if got := v.MustBeWithdrawn("east", "west"); !slices.Equal(got, test.must) {
			t.Errorf("%s: endpoints must be withdrawn at %v, want %v", test.name, got, test.must)
		}
		if got := append(v.Withdrawn("east", "north"), v.MustBeWithdrawn("east", "east")...); len(got) > 0 {
			t.Errorf("%s: endpoints of others may be withdrawn at %v", test.name, got)
		}
	}
}

// R322: DNS and kube-proxy lag behind after an outage in their own cluster, the longer it was the
// longer, up to a limit.
func TestConsumersLagAfterOutages(t *testing.T) {
	v := NewVisibility(history.Run{}, slices.Concat(
		faultAt(1, 100, 102, history.Fault{Clusters: []string{"east"}}), faultAt(2, 200, 300, history.Fault{Clusters: []string{"east"}}),
		faultAt(3, 500, 600, history.Fault{Clusters: []string{"west"}}), faultAt(4, 700, 800, history.Fault{Clusters: []string{"east", "west"}, Cut: true}),
	))
	if got, want := v.Lagging("east"), (Spans{span(100, 110), span(200, 420)}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
