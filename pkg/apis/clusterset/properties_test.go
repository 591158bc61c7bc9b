// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// R504
func TestClusterPropertiesThatFit(t *testing.T) {
	for _, test := range []struct {
		name        string
		key, value  string
		wantNothing bool
	}{
		{name: "ordinary", key: "region.example.com", value: "Zürich 1"},
		{name: "longest value", key: "region", value: strings.Repeat("ü", MaxPropertyValue)},
		{name: "no name", value: "x", wantNothing: true},
		{name: "no value", key: "x", wantNothing: true},
		{name: "no DNS name", key: "Region", value: "x", wantNothing: true},
		{name: "control characters in the name", key: "a\x1b[2Jb", value: "x", wantNothing: true},
		{name: "long value", key: "x", value: strings.Repeat("x", MaxPropertyValue+1), wantNothing: true},
		{name: "escape sequence", key: "x", value: "\x1b]0;title\x07", wantNothing: true},
		{name: "several lines", key: "x", value: "a\nb", wantNothing: true},
		{name: "bidirectional text", key: "x", value: "a\u202eb", wantNothing: true},
		{name: "invalid text", key: "x", value: "\xff", wantNothing: true},
		{name: "cluster ID", key: "id.k8s.io", value: "east", wantNothing: true},
		{name: "upstream's cluster ID", key: "cluster.clusterset.k8s.io", value: "east", wantNothing: true},
		{name: "ClusterSet", key: "clusterset.k8s.io", value: "fleet", wantNothing: true},
		{name: "any other name that is reserved", key: "region.kubernetes.io", value: "x", wantNothing: true},
		{name: "similar domain", key: "notk8s.io", value: "x"},
	} {
		property := ClusterProperty{Name: test.key, Value: test.value}
		if got := FittingProperties([]ClusterProperty{property}); len(got) > 0 == test.wantNothing {
			t.Errorf("%s: got %v", test.name, got)
		}
	}
}

// R504
func TestClusterPropertiesFitTogether(t *testing.T) {
	var many []ClusterProperty
	for i := range MaxProperties + 1 {
		many = append(many, ClusterProperty{fmt.Sprintf("p%d", i), "x"})
	}
	if got := FittingProperties(many); !slices.Equal(got, many[:MaxProperties]) {
		t.Errorf("got %d properties", len(got))
	}
	if got := FittingProperties([]ClusterProperty{{"a", "1"}, {"a", "2"}}); len(got) != 1 {
		t.Errorf("got two properties with one name: %v", got)
	}
	large := many[:MaxProperties]
	for i := range large {
		large[i].Value = strings.Repeat("x", MaxPropertyValue)
	}
	size := 0
	for _, property := range FittingProperties(large) {
		size += len(property.Name) + len(property.Value)
	}
	if size > MaxPropertyBytes || size < MaxPropertyBytes-2*MaxPropertyValue {
		t.Errorf("%d bytes fit, want at most %d", size, MaxPropertyBytes)
	}
}
