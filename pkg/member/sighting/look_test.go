// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sighting

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/member/liveness"
)

// R302, R306: all replicas read what one of them found, and a new sighting preserves it, but
// ends the silence that it is about.
func TestLooksAreReadAsTheyWereRecorded(t *testing.T) {
	lease := Record(nil, Sighting{Member: "east", UID: "uid-1", At: epoch}, 60)
	if LookFromLease(lease) != nil {
		t.Error("a Lease without a look has one")
	}
	want := &liveness.Look{At: epoch, Answers: 1, Silent: 2, Unaskable: 3, Pending: 4, Services: []string{"shop/web"}, Problem: liveness.NothingAnswers}
	recorded := RecordLook(lease, want)
	if LookFromLease(lease) != nil {
		t.Error("the Lease was modified")
	}
	want.Silence = epoch
	if diff := cmp.Diff(want, LookFromLease(Record(recorded, Sighting{Member: "east", UID: "uid-1", At: epoch, Lost: true}, 60))); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
	renewed := Record(recorded, Sighting{Member: "east", UID: "uid-1", At: epoch.Add(1)}, 60)
	want.Past = true
	if diff := cmp.Diff(want, LookFromLease(renewed)); diff != "" {
		t.Errorf("want (-), got (+): %s", diff)
	}
	if again := LookFromLease(RecordLook(renewed, want)); again.Past || !again.Silence.Equal(epoch.Add(1)) {
		t.Errorf("recorded again: %+v", again)
	}
	if sample := LookFromLease(Record(RecordLook(lease, &liveness.Look{Sample: true}), Sighting{Member: "east", At: epoch.Add(1)}, 60)); sample.Past {
		t.Error("a sample is one at a silence")
	}
	renewed.Annotations[clusterset.EndpointsAnnotation] = "{"
	if LookFromLease(renewed) != nil {
		t.Error("an annotation that cannot be read is a look")
	}
}

// R428: what the leader of an earlier version found counts in the silence in which it did.
func TestLooksOfAnEarlierVersionCount(t *testing.T) {
	for at, past := range map[string]bool{"2026-01-01T00:00:01Z": false, "2026-01-01T00:00:00Z": false, "2025-12-31T23:59:59Z": true} {
		lease := Record(nil, Sighting{Member: "east", UID: "uid-1", At: epoch}, 60)
		lease.Annotations[clusterset.EndpointsAnnotation] = `{"at":"` + at + `","answers":1,"services":["shop/web"]}`
		if look := LookFromLease(lease); look == nil || look.IsPresent() == past || look.Answers != 1 {
			t.Errorf("found at %s: %+v", at, look)
		}
	}
}

// R306: what is recorded is limited, and says that it is not all.
func TestLookFitsIntoALease(t *testing.T) {
	look := &liveness.Look{At: epoch}
	for i := range 5000 {
		look.Services = append(look.Services, fmt.Sprintf("namespace-%04d/service-with-a-long-name", i))
	}
	look.Answers = len(look.Services)
	lease := RecordLook(Record(nil, Sighting{Member: "east"}, 0), look)
	got := LookFromLease(lease)
	if size := len(lease.Annotations[clusterset.EndpointsAnnotation]); size > 65<<10 {
		t.Errorf("%d bytes", size)
	}
	if listed := len(got.Services); listed < 1000 || listed == got.Answers || got.Answers != 5000 {
		t.Errorf("%d of %d Services are listed", listed, got.Answers)
	}
	if !got.KeepsService("namespace-4999/service-with-a-long-name") {
		t.Error("a Service that is not listed counts as silent")
	}
}
