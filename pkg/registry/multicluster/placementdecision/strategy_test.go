// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package placementdecision

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
)

// R450: the generation of a decision counts its changes, but not those of its metadata.
func TestGenerationCountsChangesOfTheDecision(t *testing.T) {
	decision := func(change func(*inventory.PlacementDecision)) *inventory.PlacementDecision {
		decision := &inventory.PlacementDecision{
			ObjectMeta:    metav1.ObjectMeta{Generation: 3},
			Decisions:     []inventory.ClusterDecision{{ClusterProfileRef: inventory.ClusterProfileReference{Name: "east"}}},
			SchedulerName: "example",
		}
		change(decision)
		return decision
	}
	for _, test := range []struct {
		name   string
		change func(*inventory.PlacementDecision)
		want   int64
	}{
		{"nothing", func(*inventory.PlacementDecision) {}, 3},
		{"labels", func(d *inventory.PlacementDecision) { d.Labels = map[string]string{"a": "b"} }, 3},
		{"scheduler", func(d *inventory.PlacementDecision) { d.SchedulerName = "other" }, 4},
		{"cluster", func(d *inventory.PlacementDecision) { d.Decisions[0].ClusterProfileRef.Name = "west" }, 4},
		{"reason", func(d *inventory.PlacementDecision) { d.Decisions[0].Reason = "capacity" }, 4},
		{"no clusters", func(d *inventory.PlacementDecision) { d.Decisions = nil }, 4},
	} {
		changed := decision(test.change)
		strategy{}.PrepareForUpdate(t.Context(), changed, decision(func(*inventory.PlacementDecision) {}))
		if changed.Generation != test.want {
			t.Errorf("%s changed: generation %d, want %d", test.name, changed.Generation, test.want)
		}
		strategy{}.PrepareForCreate(t.Context(), changed)
		if changed.Generation != 1 {
			t.Errorf("created with generation %d", changed.Generation)
		}
	}
}
