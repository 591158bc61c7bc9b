// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
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
	if bytes != s.Usage().Bytes || s.Clone().Usage().Bytes != bytes {
		t.Errorf("%d bytes are held, %d are counted", bytes, s.Usage().Bytes)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// R201: what is held of a member fits into its memory limit, however it arrives;
// what does not fit is refused, and the rest is held.
func TestExportsFitIntoTheLimit(t *testing.T) {
	small := sized(t, "a", 10).Object.Bytes
	limit := DefaultLimits()
	limit.Bytes = 2 * small
	s := NewStore()
	apply := func(update Update, want string, refused ...string) {
		t.Helper()
		update = s.Fit(update, limit)
		s.Apply(update)
		if got := held(t, s); got != want || s.Usage().Bytes > limit.Bytes {
			t.Errorf("%q are held in %d bytes, want %q", got, s.Usage().Bytes, want)
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
	// The first objects of a list take precedence, and those that it lacks make room.
	apply(s.Replace("b", EndpointSlices, []Arrival{sized(t, "b", 12), sized(t, "0", 15)}), "0", "b")
	apply(s.Replace("b", EndpointSlices, []Arrival{sized(t, "0", 15), sized(t, "1", 1)}), "0 1")
	// Unconfirmed objects take memory, too.
	apply(s.Replace("b", EndpointSlices, nil), "0 1")
	apply(s.Upsert(sized(t, "2", 10)), "0 1", "2")
	// Only the last objects are removed if the limit is lowered.
	limit.Bytes = small
	apply(s.Retain(Policy{Self: "a", Member: "b"}), "")
}

// R201: replicas that have read the same list of a member that exceeds its limit hold
// the same: the oldest objects, and of the same age those whose names come first.
func TestReplicasHoldTheSameOfAMemberThatExceedsItsLimit(t *testing.T) {
	a, b, old := sized(t, "a", 10), sized(t, "b", 10), sized(t, "old", 10)
	slice := *old.Object.Object.(*clusterset.ExportedEndpointSlice)
	slice.CreationTimestamp = metav1.NewTime(membertest.Epoch)
	old.Object.Object = &slice
	for _, young := range []*Arrival{&a, &b} {
		slice := *young.Object.Object.(*clusterset.ExportedEndpointSlice)
		slice.CreationTimestamp = metav1.NewTime(membertest.Epoch.Add(time.Hour))
		young.Object.Object = &slice
	}
	limit := DefaultLimits()
	limit.Bytes = 2*a.Object.Bytes + b.Object.Bytes/2 // room for two of them
	for _, first := range [][]Arrival{{a, b, old}, {b, a, old}, {old, b, a}, {b, old, a}} {
		s := NewStore()
		for _, arrival := range first { // in another order
			s.Apply(s.Fit(s.Upsert(arrival), limit))
		}
		for range 3 { // everything is read again
			update := s.Fit(s.Replace("b", EndpointSlices, first), limit)
			s.Apply(update)
			if got := held(t, s); got != "a old" || len(update.Refused()) != 1 || update.Refused()[0].Object.Name != b.Object.Name {
				t.Errorf("%q are held, and %d are refused", got, len(update.Refused()))
			}
		}
		if update := s.Fit(s.Replace("b", EndpointSlices, first), limit); update.Len() > 0 {
			t.Errorf("reading the same again changes %d objects", update.Len())
		}
	}
}

func TestLoweredLimitKeepsTheFirstObjects(t *testing.T) {
	s := newTestStore(t)
	s.Apply(s.Upsert(sized(t, "web-2", 10)))
	lowered := DefaultLimits()
	lowered.Bytes = s.Usage().Bytes - 1
	update := s.Fit(s.Retain(Policy{Self: "a", Member: "b"}), lowered)
	s.Apply(update)
	if got := held(t, s); got != "web web-1" {
		t.Errorf("%q are held", got)
	}
}

// R222: limits that are lowered together hold together.
func TestAllLoweredLimitsHold(t *testing.T) {
	s := newTestStore(t)
	limits := Usage{Bytes: DefaultMemoryLimit}
	s.Apply(s.Fit(s.Retain(Policy{Self: "a", Member: "b"}), limits))
	if got := held(t, s); got != "" {
		t.Errorf("%q are held", got)
	}
}

// R201: what is remembered of a member fits into its memory limit.
func TestRestoredExportsFitIntoTheLimit(t *testing.T) {
	a, b := sized(t, "a", 10).Object, sized(t, "b", 10).Object
	s := Restore([]Object{a, b}, Policy{Self: "a", Member: "b", Limits: Usage{Bytes: a.Bytes + b.Bytes - 1, Endpoints: 1000}})
	if got := held(t, s); got != "a" {
		t.Errorf("%q are restored", got)
	}
}

// R222: a member exports at most as many Services and endpoints as its limits allow.
// What is held stays, and what is refused says which limit to raise.
func TestServicesAndEndpointsAreLimited(t *testing.T) {
	s, limits := NewStore(), DefaultLimits()
	limits.Services, limits.Endpoints = 2, 30
	service := func(name string) Arrival { return admitted(t, membertest.ExportedService("b", name)) }
	apply := func(update Update, want Usage, reason string, parts ...string) {
		t.Helper()
		update = s.Fit(update, limits)
		s.Apply(update)
		if got := s.Usage(); got.Services != want.Services || got.Endpoints != want.Endpoints {
			t.Errorf("holds %d Services and %d endpoints, want %d and %d", got.Services, got.Endpoints, want.Services, want.Endpoints)
		}
		if len(update.Refused()) == 0 && reason != "" || len(update.Refused()) > 0 && update.Refused()[0].Err.Reason != reason {
			t.Errorf("refused %v, want reason %q", update.Refused(), reason)
		}
		for _, part := range parts {
			if !strings.Contains(update.Refused()[0].Err.Error(), part) {
				t.Errorf("%q is missing in %q", part, update.Refused()[0].Err)
			}
		}
	}
	apply(s.Upsert(service("web")), Usage{Services: 1}, "")
	apply(s.Upsert(service("db")), Usage{Services: 2}, "")
	apply(s.Upsert(service("more")), Usage{Services: 2}, ReasonServiceLimit, "2 Services", "service-limit")
	apply(s.Upsert(sized(t, "a", 20)), Usage{Services: 2, Endpoints: 20}, "")
	apply(s.Upsert(sized(t, "b", 11)), Usage{Services: 2, Endpoints: 20}, ReasonEndpointLimit, "30 endpoints", "endpoint-limit")
	apply(s.Upsert(sized(t, "b", 10)), Usage{Services: 2, Endpoints: 30}, "")
	apply(s.Replace("b", EndpointSlices, []Arrival{sized(t, "0", 20), sized(t, "b", 10), sized(t, "c", 10)}), Usage{Services: 2, Endpoints: 30}, ReasonEndpointLimit)
	apply(s.Replace("b", Services, []Arrival{service("more"), service("web")}), Usage{Services: 2, Endpoints: 30}, "")
	// Lowered limits remove only what they limit.
	limits.Endpoints = 25
	apply(s.Retain(Policy{Self: "a", Member: "b"}), Usage{Services: 2, Endpoints: 20}, "")
	limits.Services = 0
	apply(s.Retain(Policy{Self: "a", Member: "b"}), Usage{Endpoints: 20}, "")
}

// R222: whatever arrives, the limits hold, all usage is accounted for, and what is held
// is never removed for what is new.
func TestLimitsHoldForRandomExports(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 3))
		s, limits := NewStore(), Usage{Bytes: DefaultMemoryLimit, Services: 5, Endpoints: 40}
		for range 100 {
			name := string(rune('a' + random.IntN(8)))
			var update Update
			before := held(t, s)
			switch random.IntN(3) {
			case 0:
				update = s.Upsert(admitted(t, membertest.ExportedService("b", name)))
			case 1:
				update = s.Upsert(sized(t, name, random.IntN(20)))
			default:
				update = s.Remove(sized(t, name, 1).Object)
			}
			update = s.Fit(update, limits)
			s.Apply(update)
			if _, exceeded := s.Usage().exceeds(limits); exceeded {
				t.Fatalf("seed %d: limits are exceeded: %+v", seed, s.Usage())
			}
			var counted Usage
			for key := range s.refs {
				object, _ := s.find(key)
				counted = counted.add(object.usage(), 1)
			}
			if counted != s.Usage() {
				t.Fatalf("seed %d: usage is %+v, want %+v", seed, s.Usage(), counted)
			}
			for _, other := range strings.Fields(before) {
				if other != name && !slices.Contains(strings.Fields(held(t, s)), other) {
					t.Fatalf("seed %d: %s was removed for %s", seed, other, name)
				}
			}
		}
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
