// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterprofile

import (
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
)

func profile(manager string, labels map[string]string) *inventory.ClusterProfile {
	return &inventory.ClusterProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "east", Labels: maps.Clone(labels), Generation: 3},
		Spec:       inventory.ClusterProfileSpec{ClusterManager: inventory.ClusterManager{Name: manager}},
	}
}

// R452: profiles without the label of their cluster manager get it, and a label is never replaced.
func TestMissingLabelOfTheClusterManagerIsAdded(t *testing.T) {
	const key = inventory.ClusterManagerLabel
	tooLong := strings.Repeat("a", 64)
	for _, test := range []struct {
		name, manager string
		labels, want  map[string]string
	}{
		{"no labels", "example", nil, map[string]string{key: "example"}},
		{"other labels", "example", map[string]string{"a": "b"}, map[string]string{"a": "b", key: "example"}},
		{"the label", "example", map[string]string{key: "example"}, map[string]string{key: "example"}},
		{"another value", "example", map[string]string{key: "other"}, map[string]string{key: "other"}},
		{"an empty value", "example", map[string]string{key: ""}, map[string]string{key: ""}},
		{"no cluster manager", "", nil, nil},
		{"not a label value", tooLong, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			created, updated := profile(test.manager, test.labels), profile(test.manager, test.labels)
			(&strategy{}).PrepareForCreate(t.Context(), created)
			(&strategy{}).PrepareForUpdate(t.Context(), updated, profile(test.manager, nil))
			if !maps.Equal(created.Labels, test.want) || !maps.Equal(updated.Labels, test.want) {
				t.Errorf("created with %v, updated to %v, want %v", created.Labels, updated.Labels, test.want)
			}
		})
	}
}

// R450: spec and status are written separately, and the generation counts changes of the spec.
func TestGenerationCountsChangesOfTheSpec(t *testing.T) {
	old := profile("example", nil)
	old.Status.Version.Kubernetes = "v1"
	change := func() *inventory.ClusterProfile {
		changed := profile("example", map[string]string{"a": "b"})
		changed.Spec.DisplayName, changed.Status.Version.Kubernetes = "East", "v2"
		return changed
	}
	created, updated, reported, labeled := change(), change(), change(), profile("example", map[string]string{"a": "b"})
	(&strategy{}).PrepareForCreate(t.Context(), created)
	(&strategy{}).PrepareForUpdate(t.Context(), updated, old)
	(&strategy{}).PrepareForUpdate(t.Context(), labeled, old)
	statusStrategy{&strategy{}}.PrepareForUpdate(t.Context(), reported, old)
	for _, test := range []struct {
		name                      string
		profile                   *inventory.ClusterProfile
		generation                int64
		displayName, version, own string
	}{
		{"created", created, 1, "East", "", "b"},
		{"updated", updated, 4, "East", "v1", "b"},
		{"only labeled", labeled, 3, "", "v1", "b"},
		{"status updated", reported, 3, "", "v2", ""},
	} {
		got := test.profile
		if got.Generation != test.generation || got.Spec.DisplayName != test.displayName || got.Status.Version.Kubernetes != test.version || got.Labels["a"] != test.own {
			t.Errorf("%s: got generation %d and %+v, want %+v", test.name, got.Generation, got, test)
		}
	}
}
