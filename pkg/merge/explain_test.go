// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/clustersetip"
)

func explained(t *testing.T, name string, exports ...Export) Property {
	t.Helper()
	for _, property := range Explain(exports) {
		if property.Name == name {
			return property
		}
	}
	t.Fatalf("property %q not found", name)
	return Property{}
}

func TestExplainNamesTheClusterWhoseValueIsUsed(t *testing.T) {
	families := func(families ...corev1.IPFamily) func(*Export) {
		return func(e *Export) { e.Spec.IPFamilies = families }
	}
	distribution := func(e *Export) { e.Spec.TrafficDistribution = ptr.To("PreferSameZone") }
	asks := func(wants bool, held ...string) func(*Export) {
		return func(e *Export) {
			e.IP = clustersetip.Export{Cluster: e.Cluster, At: e.Since, Wants: wants}
			if len(held) > 0 {
				e.IP.Decision = clustersetip.NewDecision("gone", held, e.Since)
			}
		}
	}
	long := strings.Repeat("x", 1000)
	for _, test := range []struct {
		name    string
		exports []Export
		want    Property
	}{
		{
			name: "type", exports: []Export{exported(2), exported(1)},
			want: Property{Values: map[string]string{"cluster-1": "ClusterSetIP", "cluster-2": "ClusterSetIP"}, Used: "ClusterSetIP", Rule: Agreed},
		},
		{
			name: "traffic distribution", exports: []Export{exported(2, distribution), exported(1)},
			want: Property{Values: map[string]string{"cluster-1": "", "cluster-2": "PreferSameZone"}, Used: "", Rule: Oldest, Cluster: "cluster-1", Conflict: true},
		},
		{
			name: "ports", exports: []Export{exported(2, withPorts("dns:53/UDP")), exported(1, withPorts("http:80/TCP"))},
			want: Property{Values: map[string]string{"cluster-1": "http:80/TCP", "cluster-2": "dns:53/UDP"}, Used: "dns:53/UDP,http:80/TCP", Rule: Union, Conflict: true},
		},
		{
			name: "ports", exports: []Export{exported(2, withPorts("a:1/TCP", "b:2/TCP")), exported(1, withPorts("b:2/TCP", "a:1/"))},
			want: Property{Values: map[string]string{"cluster-1": "a:1/TCP,b:2/TCP", "cluster-2": "a:1/TCP,b:2/TCP"}, Used: "a:1/TCP,b:2/TCP", Rule: Agreed},
		},
		{
			name: "IP families", exports: []Export{exported(1, families("IPv4")), exported(2, families("IPv4", "IPv6"))},
			want: Property{Values: map[string]string{"cluster-1": "IPv4", "cluster-2": "IPv4,IPv6"}, Used: "IPv4", Rule: Oldest, Cluster: "cluster-1"},
		},
		{ // different values with the same description
			name: "annotations", exports: []Export{
				exported(1, func(e *Export) { e.Annotations = map[string]string{"a": "1", "b": "2"} }),
				exported(2, func(e *Export) { e.Annotations = map[string]string{"a": "1,b=2"} }),
			},
			want: Property{Values: map[string]string{"cluster-1": "a=1,b=2", "cluster-2": "a=1,b=2"}, Used: "a=1,b=2", Rule: Oldest, Cluster: "cluster-1", Conflict: true},
		},
		{
			name: "annotations", exports: []Export{exported(1, func(e *Export) { e.Annotations = map[string]string{"a": long} })},
			want: Property{Values: map[string]string{"cluster-1": "a=" + long}, Used: "a=" + long, Rule: Agreed},
		},
		{
			name: "shared ClusterSet IP", exports: []Export{exported(1, asks(true)), exported(2, asks(false))},
			want: Property{Values: map[string]string{"cluster-1": "true", "cluster-2": "false"}, Used: "undecided", Rule: Agreed},
		},
		{ // the deciding cluster has withdrawn its export
			name: "shared ClusterSet IP", exports: []Export{exported(1, asks(true, "243.1.0.1")), exported(2, asks(false, "243.1.0.1"))},
			want: Property{Values: map[string]string{"cluster-1": "true", "cluster-2": "false"}, Used: "true (243.1.0.1)", Rule: Founding, Cluster: "gone", Conflict: true},
		},
		{
			name: "shared ClusterSet IP", exports: []Export{exported(1, asks(false)), exported(2, asks(true))},
			want: Property{Values: map[string]string{"cluster-1": "false", "cluster-2": "true"}, Used: "false", Rule: Founding, Cluster: "cluster-1", Conflict: true},
		},
	} {
		test.want.Name = test.name
		if diff := cmp.Diff(test.want, explained(t, test.name, test.exports...)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestExplainReportsTheConflictsOfMerge(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	for range 1000 {
		exports := arbitrary(random.Intn)
		conflicts := 0
		for _, property := range Explain(exports) {
			if property.Conflict {
				conflicts++
			}
			if property.Conflict && property.Rule == Agreed {
				t.Errorf("property %s has rule Agreed and a conflict: %v", property.Name, property.Values)
			}
			if len(property.Values) != len(exports) {
				t.Errorf("%d of %d clusters have a value of %s", len(property.Values), len(exports), property.Name)
			}
		}
		if want := len(Merge(exports).Conflicts); conflicts != want {
			t.Fatalf("%d conflicts, want %d", conflicts, want)
		}
	}
}
