// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clustersetip

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
)

// through returns a decision that was heard through clusters.
func through(decision *Decision, clusters ...string) *Decision {
	decision.AdoptedFrom = clusters
	return decision
}

// R287: a cluster records through which clusters it heard of a decision.
func TestAdoptedDecisionsNameWhereTheyComeFrom(t *testing.T) {
	const minute = 60
	made := func() *Decision { return by("a", 0, "243.1.0.1") }
	var many []string
	for number := range clusterset.MaxAdoptedFrom {
		many = append(many, fmt.Sprintf("c%02d", number))
	}
	for name, test := range map[string]struct {
		exports []Export
		want    []string
	}{
		"through several, the nearest first":          {[]Export{{Cluster: "z", Decision: through(made(), "c", "b", "c", "z")}}, []string{"z", "c", "b"}},
		"from the cluster that made it":               {[]Export{{Cluster: "a", Decision: made()}}, nil},
		"from a cluster that adopted it":              {[]Export{{Cluster: "b", Decision: made()}}, []string{"b"}},
		"through several":                             {[]Export{{Cluster: "b", Decision: through(made(), "c", "m")}}, []string{"b", "c", "m"}},
		"through several, said to have made it":       {[]Export{{Cluster: "a", Decision: through(made(), "c", "m")}}, nil},
		"the exporting cluster names itself":          {[]Export{{Cluster: "b", Decision: through(made(), "b", "b")}}, []string{"b"}},
		"through the fewest":                          {[]Export{{Cluster: "b", Decision: through(made(), "m")}, {Cluster: "c", Decision: made()}}, []string{"c"}},
		"also from the cluster that made it":          {[]Export{{Cluster: "b", Decision: through(made(), "m")}, {Cluster: "a", Decision: made()}}, nil},
		"recorded":                                    {[]Export{{Cluster: "self", Decision: through(made(), "m")}, {Cluster: "b", Decision: made()}}, []string{"m"}},
		"recorded, and confirmed by who made it":      {[]Export{{Cluster: "self", Decision: through(made(), "m")}, {Cluster: "a", Decision: made()}}, nil},
		"recorded, and who made it has another since": {[]Export{{Cluster: "self", Decision: through(made(), "m")}, {Cluster: "a", Decision: by("a", 1, "243.1.0.2")}}, []string{"m"}},
		"the exporting cluster is never left out":     {[]Export{{Cluster: "z", Decision: through(made(), many...)}}, append([]string{"z"}, many[:clusterset.MaxAdoptedFrom-1]...)},
	} {
		got := Decide(Local{Cluster: "self", Now: at(minute)}, append(test.exports, Export{Cluster: "self"}), true).Record
		if got == nil || !slices.Equal(got.AdoptedFrom, test.want) {
			t.Errorf("%s: got %+v, want it adopted from %v", name, got, test.want)
		}
	}
}

func TestDecisionDependsOnClusters(t *testing.T) {
	decision := through(by("a", 0), "b", "c")
	for cluster, want := range map[string]bool{"a": true, "b": true, "c": true, "d": false} {
		if got := DependsOn(decision, sets.New(cluster)); got != want {
			t.Errorf("%s: got %t, want %t", cluster, got, want)
		}
	}
	if DependsOn(nil, sets.New("a")) {
		t.Error("no decision depends on a cluster")
	}
}

// R287: a cluster cannot make others forget that they heard of a decision through it by
// making up clusters that it heard of the decision through.
func TestMadeUpClustersDoNotHideWhereADecisionComesFrom(t *testing.T) {
	decision := by("a", 0, "243.1.0.1")
	for number := range clusterset.MaxAdoptedFrom {
		decision.AdoptedFrom = append(decision.AdoptedFrom, fmt.Sprintf("c%02d", number))
	}
	from := "zz"
	for _, cluster := range []string{"b", "d", "e"} {
		decision = Decide(Local{Cluster: cluster, Now: at(60)}, []Export{{Cluster: from, Decision: decision}, {Cluster: cluster}}, true).Record
		if decision == nil || !DependsOn(decision, sets.New("zz")) || len(decision.AdoptedFrom) > clusterset.MaxAdoptedFrom {
			t.Fatalf("%s adopts %+v from %s, want it to depend on zz", cluster, decision, from)
		}
		from = cluster
	}
}
