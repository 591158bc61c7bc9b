// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package sighting

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestSightingsAreReadAsTheyWereRecorded(t *testing.T) {
	var lease *coordinationv1.Lease
	for _, want := range []Sighting{
		{Member: "east", UID: "uid-1", At: epoch},
		{Member: "east", UID: "uid-1", At: epoch, Lost: true},
		{Member: "east", UID: "uid-2", At: epoch.Add(time.Hour)},
		{Member: "east", At: epoch.Add(time.Hour)},
	} {
		before := lease.DeepCopy()
		next := Record(lease, want, 60)
		if diff := cmp.Diff(before, lease); diff != "" {
			t.Errorf("the Lease was modified: %s", diff)
		}
		lease = next
		if got, ok := FromLease(lease); !ok || got != want || lease.Name != "member-east" || *lease.Spec.LeaseDurationSeconds != 60 {
			t.Errorf("got %+v, want %+v from %+v", got, want, lease)
		}
	}
	if lease := Record(lease, Sighting{Member: "east", At: epoch}, 0); lease.Spec.LeaseDurationSeconds != nil {
		t.Error("a TTL of 0 is recorded")
	}
}

func TestOnlyLabeledLeasesWithThePrefixAreThoseOfMembers(t *testing.T) {
	for _, test := range []struct {
		name   string
		labels map[string]string
		want   bool
	}{
		{"member-east", map[string]string{multicluster.ManagedByLabel: multicluster.ManagedBy}, true},
		{"member-east", nil, false},
		{"member-", map[string]string{multicluster.ManagedByLabel: multicluster.ManagedBy}, false},
		{"mcs-controller", map[string]string{multicluster.ManagedByLabel: multicluster.ManagedBy}, false},
	} {
		if _, got := FromLease(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: test.name, Labels: test.labels}}); got != test.want {
			t.Errorf("%s %v: got %t", test.name, test.labels, got)
		}
	}
}
