// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/inventory"
)

// expectErrors compares the paths of all errors, in order.
func expectErrors(t *testing.T, errs field.ErrorList, want []string) {
	t.Helper()
	var got []string
	for _, err := range errs {
		got = append(got, err.Field)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got errors for %q, want %q: %v", got, want, errs.ToAggregate())
	}
}

func profile(change func(*inventory.ClusterProfile)) *inventory.ClusterProfile {
	profile := &inventory.ClusterProfile{
		ObjectMeta: metav1.ObjectMeta{
			Name: "east", Namespace: "fleet", ResourceVersion: "1", Labels: map[string]string{inventory.ClusterManagerLabel: "example"},
		},
		Spec: inventory.ClusterProfileSpec{ClusterManager: inventory.ClusterManager{Name: "example"}},
	}
	if change != nil {
		change(profile)
	}
	return profile
}

// R451
func TestValidateClusterProfile(t *testing.T) {
	const name, label = "spec.clusterManager.name", "metadata.labels[x-k8s.io/cluster-manager]"
	managedBy := func(name, label string) func(*inventory.ClusterProfile) {
		return func(p *inventory.ClusterProfile) {
			p.Spec.ClusterManager.Name, p.Labels = name, map[string]string{inventory.ClusterManagerLabel: label}
		}
	}
	for _, test := range []struct {
		name   string
		change func(*inventory.ClusterProfile)
		want   []string
	}{
		{name: "the least"},
		{name: "a display name", change: func(p *inventory.ClusterProfile) { p.Spec.DisplayName = "East (production)" }},
		{name: "a dotted name", change: func(p *inventory.ClusterProfile) { p.Name = "east.example.com" }},
		{name: "an upper-case name", change: func(p *inventory.ClusterProfile) { p.Name = "East" }, want: []string{"metadata.name"}},
		{name: "no namespace", change: func(p *inventory.ClusterProfile) { p.Namespace = "" }, want: []string{"metadata.namespace"}},
		{name: "no cluster manager", change: managedBy("", ""), want: []string{name}},
		{name: "no label", change: func(p *inventory.ClusterProfile) { p.Labels = nil }, want: []string{label}},
		{name: "an empty label", change: managedBy("example", ""), want: []string{label}},
		{name: "the label of another cluster manager", change: managedBy("example", "other"), want: []string{label}},
		{name: "a cluster manager of 63 characters", change: managedBy(strings.Repeat("a", 63), strings.Repeat("a", 63))},
		{name: "a cluster manager of 64 characters", change: managedBy(strings.Repeat("a", 64), "example"), want: []string{name}},
		{name: "a cluster manager that cannot be a label", change: managedBy("An Example", "example"), want: []string{name}},
	} {
		t.Run(test.name, func(t *testing.T) {
			expectErrors(t, ValidateClusterProfile(profile(test.change)), test.want)
			immutable := func(path string) bool { return path == "metadata.name" || path == "metadata.namespace" }
			expectErrors(t, ValidateClusterProfileUpdate(profile(test.change), profile(test.change)), slices.DeleteFunc(test.want, immutable))
		})
	}
}

// R451: as upstream, a profile does not change its cluster manager, nor its namespace.
func TestClusterManagerIsImmutable(t *testing.T) {
	renamed := profile(func(p *inventory.ClusterProfile) {
		p.Spec.ClusterManager.Name, p.Labels = "new", map[string]string{inventory.ClusterManagerLabel: "new"}
	})
	expectErrors(t, ValidateClusterProfileUpdate(renamed, profile(nil)), []string{"spec.clusterManager.name"})
	renamed.Namespace = "other"
	expectErrors(t, ValidateClusterProfileUpdate(renamed, profile(nil)), []string{"metadata.namespace", "spec.clusterManager.name"})
}

// R451
func TestValidateClusterProfileStatus(t *testing.T) {
	property := func(name, value string) inventory.Property { return inventory.Property{Name: name, Value: value} }
	extension := func(name, raw string) inventory.AccessProvider {
		var content runtime.RawExtension
		if raw != "" {
			content.Raw = []byte(raw)
		}
		return inventory.AccessProvider{Name: "a", Cluster: inventory.Cluster{Extensions: []inventory.NamedExtension{{Name: name, Extension: content}}}}
	}
	for _, test := range []struct {
		name   string
		status inventory.ClusterProfileStatus
		want   []string
	}{
		{name: "nothing"},
		{name: "everything", status: inventory.ClusterProfileStatus{
			Conditions:          []metav1.Condition{{Type: inventory.ControlPlaneHealthy, Status: metav1.ConditionTrue, Reason: "Healthy", LastTransitionTime: metav1.Now()}},
			Version:             inventory.ClusterVersion{Kubernetes: "v1.36.3"},
			Properties:          []inventory.Property{property("region", "eu"), property("zone", "eu")},
			AccessProviders:     []inventory.AccessProvider{extension("client.authentication.k8s.io/exec", ` {"a":"b"}`), {Name: "b"}},
			CredentialProviders: []inventory.AccessProvider{{Name: "a"}, {Name: "b"}},
		}},
		{name: "a condition without reason", status: inventory.ClusterProfileStatus{
			Conditions: []metav1.Condition{{Type: "Joined", Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now()}},
		}, want: []string{"status.conditions[0].reason"}},
		{name: "two conditions of one type", status: inventory.ClusterProfileStatus{Conditions: []metav1.Condition{
			{Type: "Joined", Status: metav1.ConditionTrue, Reason: "A", LastTransitionTime: metav1.Now()},
			{Type: "Joined", Status: metav1.ConditionFalse, Reason: "B", LastTransitionTime: metav1.Now()},
		}}, want: []string{"status.conditions[1].type"}},
		{name: "the longest property", status: inventory.ClusterProfileStatus{Properties: []inventory.Property{
			property(strings.Repeat("ä", MaxPropertyNameLength), strings.Repeat("ä", MaxPropertyValueLength)),
		}}},
		{name: "properties that are empty or too long", status: inventory.ClusterProfileStatus{Properties: []inventory.Property{
			property("", ""), property("", "x"),
			property(strings.Repeat("x", MaxPropertyNameLength+1), strings.Repeat("x", MaxPropertyValueLength+1)),
		}}, want: []string{
			"status.properties[0].name", "status.properties[0].value", "status.properties[1].name",
			"status.properties[2].name", "status.properties[2].value",
		}},
		{name: "two properties of one name", status: inventory.ClusterProfileStatus{Properties: []inventory.Property{
			property("a", "1"), property("b", "2"), property("a", "3"),
		}}, want: []string{"status.properties[2].name"}},
		{name: "providers without a name, or with the name of another one", status: inventory.ClusterProfileStatus{
			AccessProviders:     []inventory.AccessProvider{{Name: "a"}, {}, {Name: "a"}},
			CredentialProviders: []inventory.AccessProvider{{}, {Name: "a"}, {Name: "a"}},
		}, want: []string{
			"status.accessProviders[1].name", "status.accessProviders[2].name",
			"status.credentialProviders[0].name", "status.credentialProviders[2].name",
		}},
		{name: "an empty extension", status: inventory.ClusterProfileStatus{AccessProviders: []inventory.AccessProvider{extension("e", "{}")}}},
		{name: "no extension", status: inventory.ClusterProfileStatus{AccessProviders: []inventory.AccessProvider{extension("", "")}}, want: []string{
			"status.accessProviders[0].cluster.extensions[0].name", "status.accessProviders[0].cluster.extensions[0].extension",
		}},
		{name: "an extension that is not an object", status: inventory.ClusterProfileStatus{AccessProviders: []inventory.AccessProvider{extension("e", `"text"`)}},
			want: []string{"status.accessProviders[0].cluster.extensions[0].extension"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			changed := profile(func(p *inventory.ClusterProfile) { p.Status = test.status })
			expectErrors(t, ValidateClusterProfileStatusUpdate(changed, profile(nil)), test.want)
		})
	}
}

// R451
func TestValidatePlacementDecision(t *testing.T) {
	decided := func(names ...string) []inventory.ClusterDecision {
		decisions := []inventory.ClusterDecision{}
		for _, name := range names {
			decisions = append(decisions, inventory.ClusterDecision{ClusterProfileRef: inventory.ClusterProfileReference{Name: name}})
		}
		return decisions
	}
	for _, test := range []struct {
		name      string
		decisions []inventory.ClusterDecision
		want      []string
	}{
		{name: "no cluster", decisions: decided()},
		{name: "no list", want: []string{"decisions"}},
		{name: "two clusters", decisions: decided("east", "west")},
		{name: "a cluster without a name", decisions: decided("east", ""), want: []string{"decisions[1].clusterProfileRef.name"}},
		{name: "100 clusters", decisions: decided(slices.Repeat([]string{"east"}, MaxDecisions)...)},
		{name: "101 clusters", decisions: decided(slices.Repeat([]string{"east"}, MaxDecisions+1)...), want: []string{"decisions"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			decision := &inventory.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "fleet", ResourceVersion: "1"}, Decisions: test.decisions}
			expectErrors(t, ValidatePlacementDecision(decision), test.want)
			expectErrors(t, ValidatePlacementDecisionUpdate(decision, decision), test.want)
			decision.Name = "Web"
			expectErrors(t, ValidatePlacementDecision(decision), append([]string{"metadata.name"}, test.want...))
		})
	}
}
