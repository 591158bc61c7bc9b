// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	clustersetv1alpha1 "github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset/v1alpha1"
)

// R461: a cluster reports its version of Kubernetes and its ClusterProperties, and shows those
// that others report, unless they exceed a limit.
func TestKubernetesVersionsAndPropertiesAreShown(t *testing.T) {
	w := newFixture(t, nil)
	b := w.join("b")
	region := []clusterset.ClusterProperty{{Name: "region.example.com", Value: "here"}}
	w.SetKubernetesVersion("v1.36.0")
	w.SetProperties(region)
	if status := w.Entry("a").Status; status.KubernetesVersion != "v1.36.0" || !slices.Equal(status.Properties, region) {
		t.Errorf("this cluster reports %+v", status)
	}
	property := clustersetv1alpha1.ClusterProperty{Name: "region.example.com", Value: "there"}
	many := slices.Repeat([]clustersetv1alpha1.ClusterProperty{property}, clusterset.MaxProperties+1)
	for i := range many {
		many[i].Name += strconv.Itoa(i)
	}
	for _, test := range []struct {
		name       string
		version    string
		properties []clustersetv1alpha1.ClusterProperty
		want       string
		shown      int
	}{
		{"some", "v1.37.0", []clustersetv1alpha1.ClusterProperty{property}, "v1.37.0", 1},
		{"as many as allowed", "v1.37.0", many[1:], "v1.37.0", clusterset.MaxProperties},
		{"too many", "v1.37.0", many, "v1.37.0", 0},
		{"twice", "v1.37.0", []clustersetv1alpha1.ClusterProperty{property, property}, "v1.37.0", 0},
		{"no name", "v1.37.0", []clustersetv1alpha1.ClusterProperty{{Value: "x"}}, "v1.37.0", 0},
		{"long value", "v1.37.0", []clustersetv1alpha1.ClusterProperty{{Name: "x", Value: strings.Repeat("x", clusterset.MaxPropertyValue+1)}}, "v1.37.0", 0},
		{"long version", strings.Repeat("v", 1000), nil, "", 0},
	} {
		w.probe(b, ownEntry("b", withExports(1), func(s *clustersetv1alpha1.MemberStatus) {
			s.KubernetesVersion, s.Properties = test.version, test.properties
		}))
		if status := w.Entry("b").Status; status.KubernetesVersion != test.want || len(status.Properties) != test.shown {
			t.Errorf("%s: got version %q and properties %v", test.name, status.KubernetesVersion, status.Properties)
		}
	}
}

// R346: a cluster reports its own version to the others, and shows those that they report.
func TestVersionsOfAllClustersAreShown(t *testing.T) {
	w := newFixture(t, nil)
	w.config.Version = "v1.1.0"
	b := w.join("b")
	if version := w.Entry("b").Status.Version; version != "" {
		t.Errorf("the version of b is %q before b reported it", version)
	}
	w.probe(b, ownEntry("b", withExports(1), func(s *clustersetv1alpha1.MemberStatus) { s.Version = "v1.0.0" }))
	if version := w.Entry("b").Status.Version; version != "v1.0.0" {
		t.Errorf("the version of b is %q", version)
	}
	if version := w.Entry("a").Status.Version; version != "v1.1.0" {
		t.Errorf("the version of this cluster is %q", version)
	}
}
