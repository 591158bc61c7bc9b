// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

// sized returns an EndpointSlice with a number of endpoints.
func sized(t *testing.T, name string, endpoints int) Arrival {
	t.Helper()
	slice := membertest.ExportedSlice("b", "web", name)
	slice.Spec.Endpoints = nil
	for i := range endpoints {
		slice.Spec.Endpoints = append(slice.Spec.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.0.%d.%d", i/250, i%250)}})
	}
	arrival := admitted(t, slice)
	if !arrival.Admitted {
		t.Fatal(arrival.Err)
	}
	return arrival
}

// held returns the names of all slices of b, sorted, and checks the count of bytes.
func held(t *testing.T, s *Store) string {
	t.Helper()
	var names []string
	var bytes int64
	for _, cluster := range s.clusters {
		for kind := range Kinds {
			for _, object := range cluster.ofKind(kind) {
				names = append(names, strings.TrimSuffix(object.Name, ".b"))
				bytes += object.Bytes
				if object.Bytes != Footprint(object.Object) {
					t.Errorf("%s is counted with %d bytes, but takes %d", object.Name, object.Bytes, Footprint(object.Object))
				}
			}
		}
	}
	if bytes != s.Bytes() || s.Clone().Bytes() != bytes {
		t.Errorf("%d bytes are held, %d are counted", bytes, s.Bytes())
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// R201: what is held of a member fits into its memory limit, however it arrives;
// what does not fit is refused, and the rest is held.
func TestExportsFitIntoTheLimit(t *testing.T) {
	small := sized(t, "a", 10).Object.Bytes
	limit := 2 * small
	s := NewStore()
	apply := func(update Update, want string, refused ...string) {
		t.Helper()
		update = s.Fit(update, limit)
		s.Apply(update)
		if got := held(t, s); got != want || s.Bytes() > limit {
			t.Errorf("%q are held in %d bytes, want %q", got, s.Bytes(), want)
		}
		var names []string
		for _, arrival := range update.Refused() {
			names = append(names, strings.TrimSuffix(arrival.Object.Name, ".b"))
			if got := arrival.Err.Reason; got != ReasonMemoryLimit || arrival.Admitted {
				t.Errorf("%s is refused for %s: %v", arrival.Object.Name, got, arrival.Err)
			}
		}
		if !slices.Equal(names, refused) {
			t.Errorf("%q are refused, want %q", names, refused)
		}
	}
	apply(s.Upsert(sized(t, "a", 10)), "a")
	apply(s.Upsert(sized(t, "b", 10)), "a b")
	apply(s.Upsert(sized(t, "c", 1)), "a b", "c")
	// An object that grows, and one that shrinks.
	apply(s.Upsert(sized(t, "b", 20)), "a", "b")
	apply(s.Upsert(sized(t, "a", 1)), "a")
	apply(s.Upsert(sized(t, "b", 12)), "a b")
	// Held objects take precedence in a list, and those that it lacks make room.
	apply(s.Replace("b", EndpointSlices, []Arrival{sized(t, "0", 15), sized(t, "b", 12)}), "b", "0")
	apply(s.Replace("b", EndpointSlices, []Arrival{sized(t, "0", 15), sized(t, "1", 1)}), "0 1")
	// Unconfirmed objects take memory, too.
	apply(s.Replace("b", EndpointSlices, nil), "0 1")
	apply(s.Upsert(sized(t, "2", 10)), "0 1", "2")
	// Only the last objects are removed if the limit is lowered.
	limit = small
	apply(s.Retain(Policy{Self: "a", Member: "b"}), "")
}

func TestLoweredLimitKeepsTheFirstObjects(t *testing.T) {
	s := newTestStore(t)
	s.Apply(s.Upsert(sized(t, "web-2", 10)))
	update := s.Fit(s.Retain(Policy{Self: "a", Member: "b"}), s.Bytes()-1)
	s.Apply(update)
	if got := held(t, s); got != "web web-1" {
		t.Errorf("%q are held", got)
	}
}

// R201: what is remembered of a member fits into its memory limit.
func TestRestoredExportsFitIntoTheLimit(t *testing.T) {
	a, b := sized(t, "a", 10).Object, sized(t, "b", 10).Object
	s := Restore([]Object{a, b}, Policy{Self: "a", Member: "b", MemoryLimit: a.Bytes + b.Bytes - 1})
	if got := held(t, s); got != "a" {
		t.Errorf("%q are restored", got)
	}
}

// R201: one object cannot take all of the memory.
func TestLargeObjectIsRefused(t *testing.T) {
	slice := membertest.ExportedSlice("b", "web", "web-1")
	slice.Spec.Endpoints = nil
	for i := range 1000 {
		endpoint := discoveryv1.Endpoint{}
		for j := range 100 {
			endpoint.Addresses = append(endpoint.Addresses, fmt.Sprintf("10.%d.%d.%d", i/250, i%250, j))
		}
		slice.Spec.Endpoints = append(slice.Spec.Endpoints, endpoint)
	}
	arrival := admitted(t, slice)
	if arrival.Admitted || arrival.Err.Reason != ReasonObjectTooLarge {
		t.Errorf("got %v, %v", arrival.Admitted, arrival.Err)
	}
}

// Keys are kept of objects that are rejected, whatever their names.
func TestKeysAreLimited(t *testing.T) {
	key := func(name string) Key {
		service := membertest.ExportedService("b", "web")
		service.Name, service.Namespace = name, name
		arrival := admitted(t, service)
		if of, ok := KeyOf(service); arrival.Admitted || !ok || of != arrival.Object.Key() {
			t.Errorf("%.20q has the key %v, and that of the object is %v", name, of, arrival.Object.Key())
		}
		return arrival.Object.Key()
	}
	long := strings.Repeat("x", 1<<20)
	one, other := key(long+"1"), key(long+"2")
	if len(one.Name)+len(one.Namespace) > 1000 || one == other || one != key(long+"1") {
		t.Errorf("keys are %v and %v", one, other)
	}
	foreign := membertest.ExportedService("b", "web")
	foreign.Spec.Cluster = long
	rejected := newRejection(admitted(t, foreign))
	if len(rejected.cluster) > 1000 || len(rejected.message) > 4*maxMessage {
		t.Errorf("kept %d and %d bytes", len(rejected.cluster), len(rejected.message))
	}
}
