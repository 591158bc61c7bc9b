// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

// audienceFor returns the audience of a list of clusters: all for "all", and none for "".
func audienceFor(clusters string) *clustersetv1alpha1.Audience {
	if clusters == "all" {
		return nil
	}
	return &clustersetv1alpha1.Audience{Clusters: strings.FieldsFunc(clusters, func(r rune) bool { return r == ',' })}
}

func serviceFor(t *testing.T, clusters string) Arrival {
	service := membertest.ExportedService("b", "web")
	service.Spec.Audience = audienceFor(clusters)
	return admitted(t, service)
}

func sliceOf(t *testing.T, name string) Arrival {
	return admitted(t, membertest.ExportedSlice("b", "web", name))
}

// R624: slices are published together with their Service and for its audience, so they are counted
// for that, and not at all without a Service. A reader believes that objects are gone only if the counts match.
func TestSlicesCountForTheAudienceOfTheirService(t *testing.T) {
	visible := func(s *Store) string {
		var seen []string
		for _, reader := range []string{"c", "d"} {
			exports, endpoints := s.Counts("b").VisibleTo(reader)
			seen = append(seen, fmt.Sprintf("%s %d %d", reader, exports, endpoints))
		}
		return strings.Join(seen, ", ")
	}
	s := NewStore()
	for _, step := range []struct {
		name    string
		arrival Arrival
		remove  bool
		want    string
	}{
		{"without a Service", sliceOf(t, "web-1"), false, "c 0 0, d 0 0"},
		{"the Service appears, for nobody", serviceFor(t, ""), false, "c 0 0, d 0 0"},
		{"another slice", sliceOf(t, "web-2"), false, "c 0 0, d 0 0"},
		{"the Service is for another cluster", serviceFor(t, "d"), false, "c 0 0, d 1 4"},
		{"a third slice", sliceOf(t, "web-3"), false, "c 0 0, d 1 6"},
		{"the Service is for all", serviceFor(t, "all"), false, "c 1 6, d 1 6"},
		{"a slice disappears", sliceOf(t, "web-2"), true, "c 1 4, d 1 4"},
		{"the Service disappears", serviceFor(t, "all"), true, "c 0 0, d 0 0"},
		{"a slice disappears without a Service", sliceOf(t, "web-1"), true, "c 0 0, d 0 0"},
		{"the Service appears again", serviceFor(t, "c"), false, "c 1 2, d 0 0"},
	} {
		clone := s.Clone()
		if step.remove {
			s.Apply(s.Remove(step.arrival.Object))
		} else {
			s.Apply(s.Upsert(step.arrival))
		}
		if got := visible(s); got != step.want {
			t.Errorf("%s: got %s, want %s", step.name, got, step.want)
		}
		before := visible(clone)
		clone.Apply(clone.Replace("b", EndpointSlices, []Arrival{sliceOf(t, "web-4"), sliceOf(t, "web-5")}))
		if got := visible(s); got != step.want {
			t.Errorf("%s: a change of a clone, from %s, changed the original to %s", step.name, before, got)
		}
	}
	s.Apply(s.Remove(serviceFor(t, "c").Object))
	s.Apply(s.Remove(sliceOf(t, "web-3").Object))
	if exports, endpoints := s.Counts("b").Total(); exports != 0 || endpoints != 0 {
		t.Errorf("%d exports and %d endpoints are left", exports, endpoints)
	}
}

// Endpoints that are restored after a restart are those that were read before: they have no audience of
// their own, which would take memory for each slice.
func TestRestoredEndpointsHaveNoAudience(t *testing.T) {
	service, read := serviceFor(t, "c,d").Object, sliceOf(t, "web-1").Object
	restored, err := FromImport(service.Object.(*clusterset.ExportedService), read.Object.(*clusterset.ExportedEndpointSlice))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read.Object, restored.Object); diff != "" {
		t.Errorf("restored is another object: %s", diff)
	}
}

// What is counted of a Service with many slices changes in place.
func TestManySlicesAreCountedInPlace(t *testing.T) {
	const slices, changes = 5000, 100
	s := NewStore()
	for i := range slices {
		s.Apply(s.Upsert(sliceOf(t, fmt.Sprintf("web-%d", i))))
	}
	if exports, endpoints := s.Counts("b").Total(); exports != 0 || endpoints != 0 {
		t.Fatalf("%d exports and %d endpoints without a Service", exports, endpoints)
	}
	measure := func(what string, of ...Arrival) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range changes {
			s.set(of[i%len(of)].Object)
		}
		runtime.ReadMemStats(&after)
		if bytes := (after.TotalAlloc - before.TotalAlloc) / changes; bytes > 10<<10 {
			t.Errorf("a change of %s takes %d bytes of memory", what, bytes)
		}
	}
	measure("a slice without a Service", sliceOf(t, "web-7"))
	s.Apply(s.Upsert(serviceFor(t, "c")))
	measure("a slice", sliceOf(t, "web-7"))
	measure("a Service", serviceFor(t, "d"), serviceFor(t, "c"))
	if exports, endpoints := s.Counts("b").VisibleTo("c"); exports != 1 || endpoints != 2*slices {
		t.Errorf("c sees %d exports and %d endpoints, want 1 and %d", exports, endpoints, 2*slices)
	}
	if got := len(s.Counts("b").restricted); got != 1 {
		t.Errorf("%d audiences are counted, want that of the Service", got)
	}
}

// Most clusters use no audience, and hold nothing for it.
func TestNothingIsHeldForAudiencesThatAreNotUsed(t *testing.T) {
	s := newTestStore(t)
	if held := s.clusters["b"]; held.counts.restricted != nil || held.services[web].share.audience != nil {
		t.Errorf("got %+v and %+v", held.counts.restricted, held.services[web])
	}
}
