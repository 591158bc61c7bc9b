// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterprofile

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
)

// R450
func TestTableOfProfiles(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	plain, reported := profile("example", nil), profile("example", nil)
	plain.CreationTimestamp, reported.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour)), metav1.NewTime(now.Add(-time.Hour))
	reported.Spec.DisplayName = "East"
	reported.Status = inventory.ClusterProfileStatus{
		Version:    inventory.ClusterVersion{Kubernetes: "v1.36.3"},
		Conditions: []metav1.Condition{{Type: "Joined", Status: metav1.ConditionTrue}, {Type: inventory.ControlPlaneHealthy, Status: metav1.ConditionFalse}},
	}
	list := &inventory.ClusterProfileList{Items: []inventory.ClusterProfile{*plain, *reported}}
	table, err := newTable(clocktesting.NewFakePassiveClock(now)).ConvertToTable(t.Context(), list, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]any{{"east", "", "example", "", "Unknown", "60m"}, {"east", "East", "example", "v1.36.3", "False", "60m"}} {
		if !slices.Equal(table.Rows[i].Cells, want) {
			t.Errorf("row %d: got %v, want %v", i, table.Rows[i].Cells, want)
		}
	}
}
