// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package exports

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/membertest"
)

var web = types.NamespacedName{Namespace: "ns", Name: "web"}

func admitted(t *testing.T, object any) Arrival {
	t.Helper()
	decoded, err := Decode(object)
	if err != nil {
		t.Fatal(err)
	}
	return Policy{Self: "a", Member: "b"}.Admit(decoded)
}

func newTestStore(t *testing.T) *Store {
	t.Helper()
	s := NewStore()
	s.Apply(s.Upsert(admitted(t, membertest.ExportedService("b", "web"))))
	s.Apply(s.Upsert(admitted(t, membertest.ExportedSlice("b", "web", "web-1"))))
	return s
}

// Only Apply changes a store, so that updates can be computed without its lock.
func TestComputingAnUpdateChangesNothing(t *testing.T) {
	s := newTestStore(t)
	object := admitted(t, membertest.ExportedService("b", "web")).Object
	s.Upsert(Arrival{Object: object, Err: refuse(ReasonInvalid, "invalid")})
	s.Remove(object)
	s.Replace("b", Services, nil)
	s.Retain(Policy{Self: "b"})
	s.Confirm("b", nil, [Kinds]*Rejections{})
	if export := s.Export("b", web); export == nil || len(export.Slices) != 1 || s.Unconfirmed() != 0 {
		t.Errorf("the store changed: %+v", export)
	}
}

func TestChangingACloneLeavesTheOriginal(t *testing.T) {
	s := newTestStore(t)
	clone := s.Clone()
	clone.Apply(clone.Replace("b", Services, nil))
	clone.Apply(clone.Replace("b", EndpointSlices, []Arrival{admitted(t, membertest.ExportedSlice("b", "web", "web-2"))}))
	if clone.Unconfirmed() != 1 || clone.Export("b", web).Slices[0].Name == s.Export("b", web).Slices[0].Name {
		t.Error("the clone did not change")
	}
	if _, endpoints := s.Counts("b").Total(); s.Unconfirmed() != 0 || endpoints != 2 || s.Export("b", web) == nil {
		t.Error("the original changed")
	}
}

func TestCountsFollowTheObjects(t *testing.T) {
	s := newTestStore(t)
	s.Apply(s.Upsert(admitted(t, membertest.ExportedSlice("b", "web", "web-2"))))
	s.Apply(s.Remove(admitted(t, membertest.ExportedService("b", "web")).Object))
	if exports, endpoints := s.Counts("b").Total(); exports != 0 || endpoints != 0 {
		t.Errorf("counted %d exports and %d endpoints without a Service, want none", exports, endpoints)
	}
	s.Apply(s.Upsert(admitted(t, membertest.ExportedService("b", "web"))))
	if exports, endpoints := s.Counts("b").Total(); exports != 1 || endpoints != 4 {
		t.Errorf("counted %d exports and %d endpoints, want 1 and 4", exports, endpoints)
	}
	s.Apply(s.Remove(admitted(t, membertest.ExportedService("b", "web")).Object))
	if s.Export("b", web) != nil || len(s.Services("b")) != 1 {
		t.Error("endpoints without a Service are an export")
	}
}

// A hub that no longer lists a cluster confirms that its exports are gone; a
// member cannot confirm that by not listing itself.
func TestMissingEntryConfirmsOnlyRelayedClusters(t *testing.T) {
	for member, want := range map[string]int{"b": 0, "hub": 2} {
		s := newTestStore(t)
		s.Apply(s.Replace("b", Services, nil))
		s.Apply(s.Replace("b", EndpointSlices, nil))
		if got := s.Confirm(member, map[string]*clusterset.Member{}, [Kinds]*Rejections{}).Len(); got != want {
			t.Errorf("member %s: %d objects are removed, want %d", member, got, want)
		}
	}
}

func TestFirstRejectionIsAlwaysTheSame(t *testing.T) {
	arrival := func(name string, err *Refusal) Arrival {
		return Arrival{Object: Object{Kind: Services, Name: name, Service: web}, Err: err}
	}
	failed := refuse(ReasonInvalid, "failed")
	r := NewRejections([]Arrival{arrival("c", failed), arrival("b", failed), arrival("ok", nil)})
	if r.Len() != 2 || r.First() != "exportedservices ns/b: failed" {
		t.Errorf("%d rejections, the first: %s", r.Len(), r.First())
	}
	r.Observe(arrival("a", failed))
	r.Observe(arrival("b", nil))
	if r.Len() != 2 || r.First() != "exportedservices ns/a: failed" {
		t.Errorf("%d rejections, the first: %s", r.Len(), r.First())
	}
	var none *Rejections
	if none.Len() != 0 || none.First() != "" {
		t.Error("nil is not empty")
	}
}

// Objects that are rejected may have any size, so that a member could use up the
// memory of this server with them.
func TestRejectedObjectsAreNotKept(t *testing.T) {
	var objects []weak.Pointer[clusterset.ExportedService]
	reject := func(name string) Arrival {
		service := &clusterset.ExportedService{}
		objects = append(objects, weak.Make(service))
		object := Object{Kind: Services, Cluster: "b", Name: name, Service: web, Object: service}
		return Arrival{Object: object, Err: refuse(ReasonInvalid, "%v", field.Invalid(field.NewPath("spec"), service, strings.Repeat("x", 10*maxMessage)))}
	}
	r := NewRejections([]Arrival{reject("listed")})
	r.Observe(reject("watched"))
	runtime.GC()
	for _, object := range objects {
		if object.Value() != nil {
			t.Error("a rejected object is kept in memory")
		}
	}
	if got := len([]rune(r.First())); got > 2*maxMessage {
		t.Errorf("the reason has %d characters", got)
	}
	if got := r.count("b"); got != 2 {
		t.Errorf("%d objects are counted, want 2", got)
	}
}

// The number of unconfirmed objects is that of the marks, whatever changed.
func TestUnconfirmedObjectsAreCounted(t *testing.T) {
	s := newTestStore(t)
	s.Apply(s.Upsert(admitted(t, membertest.ExportedService("b", "api"))))
	expect := func(want int) {
		t.Helper()
		if got := s.Unconfirmed(); got != want {
			t.Errorf("%d objects are unconfirmed, want %d", got, want)
		}
	}
	s.Apply(s.Replace("b", Services, nil))
	s.Apply(s.Replace("b", Services, nil))
	expect(2)
	s.Apply(s.Replace("b", EndpointSlices, nil))
	expect(3)
	s.Apply(s.Upsert(admitted(t, membertest.ExportedService("b", "api"))))
	expect(2)
	changed := membertest.ExportedSlice("b", "web", "web-1")
	changed.Spec.Endpoints = changed.Spec.Endpoints[:1]
	s.Apply(s.Upsert(admitted(t, changed)))
	expect(1)
	s = s.Clone()
	expect(1)
	s.Apply(s.Remove(admitted(t, membertest.ExportedService("b", "web")).Object))
	expect(0)
}

// The feed of a hub contains many clusters, and whether it is complete is
// determined for every object that changes, and for every entry.
func TestCostOfUnconfirmedIsIndependentOfTheNumberOfClusters(t *testing.T) {
	s := NewStore()
	for i := range 10_000 {
		cluster := fmt.Sprintf("c%d", i)
		s.set(Object{Kind: Services, Cluster: cluster, Service: web, Name: "web." + cluster})
	}
	fastest := time.Hour
	for range 5 {
		begin := time.Now()
		for range 1_000 {
			s.Unconfirmed()
		}
		fastest = min(fastest, time.Since(begin))
	}
	if fastest > 10*time.Millisecond {
		t.Errorf("1000 calls take %s with 10000 clusters", fastest)
	}
}
