// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterlist

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/clusterset"
	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

func listed(text string) map[string]string {
	return map[string]string{multicluster.ExportToAnnotation: text, clusterset.ImportFromAnnotation: text}
}

// known are the properties of clusters. Those of relayed are not known.
func known() map[string]map[string]string {
	return map[string]map[string]string{
		"west":  {"region.example.com": "eu", "size": "small"},
		"north": {"region.example.com": "us", "size": "small"},
		"here":  {"region.example.com": "eu"},
	}
}

// R620: a list has IDs, of any clusters, and properties of those that are known.
func TestClustersAreListed(t *testing.T) {
	for _, test := range []struct {
		text string
		want []string
	}{
		{"west", []string{"west"}},
		{" north ,west", []string{"north", "west"}},
		{"relayed", []string{"relayed"}},
		{"region.example.com=eu", []string{"west"}},
		{"region.example.com=eu,north", []string{"north", "west"}},
		{"size=small,west", []string{"north", "west"}},
		{"size=large", []string{}},
		{"color=red", []string{}},
		{"here", []string{}},
		{"size=", []string{}}, // not valid
		{"", []string{}},
	} {
		t.Run(test.text, func(t *testing.T) {
			audience := Audience(listed(test.text), "here", func() map[string]map[string]string {
				others := known()
				delete(others, "here") // is not a member of itself
				return others
			})
			if diff := cmp.Diff(clusterset.NewAudience(test.want...), audience); diff != "" {
				t.Error(diff)
			}
			imports := Imports(listed(test.text), known)
			for _, cluster := range []string{"west", "north", "relayed"} {
				if imports(cluster) != audience.Includes(cluster) {
					t.Errorf("imports from %s: %t", cluster, imports(cluster))
				}
			}
		})
	}
	if Audience(nil, "here", known) != nil || !Imports(nil, known)("west") {
		t.Error("without an annotation, some clusters are excluded")
	}
}

// R620: if too many clusters have a listed property, those that are listed by ID are among those that import.
func TestListedIDsComeBeforeProperties(t *testing.T) {
	audience := Audience(listed("size=small,zz"), "here", func() map[string]map[string]string {
		many := map[string]map[string]string{}
		for i := range clusterset.MaxAudience + 10 {
			many[fmt.Sprintf("c%03d", i)] = map[string]string{"size": "small"}
		}
		return many
	})
	if audience.Len() != clusterset.MaxAudience || !audience.Includes("zz") || !audience.Includes("c000") {
		t.Errorf("got %d clusters: %v", audience.Len(), audience.Clusters())
	}
}

// What is for a cluster behind hubs passes through all of them.
func TestHubsThatAreNotListedAreFound(t *testing.T) {
	for _, test := range []struct {
		path, listed []string
		want         string
	}{
		{nil, []string{"west"}, ""},
		{[]string{"west"}, []string{"west"}, ""},
		{[]string{"west", "hub"}, []string{"west"}, "hub"},
		{[]string{"west", "hub"}, []string{"hub", "west"}, ""},
		{[]string{"west", "inner", "outer"}, []string{"outer", "west"}, "inner"},
	} {
		if got := UnlistedHub(test.path, test.listed); got != test.want {
			t.Errorf("path %v, listed %v: got %q, want %q", test.path, test.listed, got, test.want)
		}
	}
}

// R621: a refused list is refused with what to write instead.
func TestInvalidListsAreRefused(t *testing.T) {
	var many []string
	for range MaxTerms + 1 {
		many = append(many, "c")
	}
	for _, test := range []struct {
		name, text string
		want       []string // one per error
	}{
		{"empty", "", []string{"lists no clusters; write IDs of clusters, or NAME=VALUE"}},
		{"blank", " ", []string{"lists no clusters"}},
		{"comma", "west,", []string{"has an empty term; remove the superfluous comma"}},
		{"upper case", "West", []string{`"West" is no cluster ID: `}},
		{"name of a property", "region.example.com", []string{`"region.example.com" is no cluster ID: `}},
		{"other separators", "west;north", []string{"separated by commas"}},
		{"reserved", "id.k8s.io=west", []string{`properties in the domain k8s.io are not compared; write the ID of the cluster`}},
		{"no value", "size=", []string{`"size=" has no value`}},
		{"space", "size= small", []string{"write it directly after a single equals sign"}},
		{"two equals signs", "size==small", []string{"the value begins with an equals sign"}},
		{"label of nodes", "topology.example.com/region=eu", []string{"labels of nodes are not compared"}},
		{"invalid name", "Size=small", []string{`"Size" cannot be the name of a ClusterProperty`}},
		{"no name", "=small", []string{`"" cannot be the name of a ClusterProperty`}},
		{"twice", "west,size=small,west", []string{`has "west" more than once; remove all but one`}},
		{"several", "West,,east", []string{"no cluster ID", "empty term"}},
		{"too many", strings.Join(many, ","), []string{"has 257 terms, and may have 256"}},
		{"too long", strings.Repeat("x", maxText+1), []string{"may not be more than"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			clusters, given, errs := Parse(listed(test.text), multicluster.ExportToAnnotation)
			if clusters != nil || !given || len(errs) != len(test.want) {
				t.Fatalf("got %v, %t and errors %v, want %d errors", clusters, given, errs, len(test.want))
			}
			for i, want := range test.want {
				if !strings.Contains(errs[i].Error(), want) {
					t.Errorf("error %q does not contain %q", errs[i], want)
				}
			}
		})
	}
}

// R621: what is wrong with a long list is shown in part.
func TestErrorsOfLongListsAreShort(t *testing.T) {
	long := strings.Repeat("A", 200)
	for _, term := range []string{
		long + "%d", long + ".%d.k8s.io=x", long + "/%d=x", long + "%d=", long + "%d= x", long + "%d=x", "size=" + long, strings.ToLower(long) + "%d",
	} {
		var terms []string
		for i := range MaxTerms {
			if strings.Contains(term, "%d") {
				terms = append(terms, fmt.Sprintf(term, i))
			} else {
				terms = append(terms, term)
			}
		}
		_, _, errs := Parse(listed(strings.Join(terms, ",")), multicluster.ExportToAnnotation)
		message := fmt.Sprint(errs.ToAggregate())
		if len(errs) != maxErrors || len(message) > 1000*maxErrors || strings.Contains(strings.ToUpper(message), long) {
			t.Errorf("%s: %d errors of %d bytes", term, len(errs), len(message))
		}
	}
	if _, _, errs := Parse(listed(strings.Repeat(" ", maxText)), multicluster.ExportToAnnotation); len(errs.ToAggregate().Error()) > 1000 {
		t.Errorf("got %d bytes for an empty list", len(errs.ToAggregate().Error()))
	}
	if _, _, errs := Parse(listed("west,North"), multicluster.ExportToAnnotation); len(errs) != 1 || errs[0].BadValue != "North" {
		t.Errorf("got %v", errs)
	}
}

// What is parsed is within the limits, and the same when it is written and parsed again.
func FuzzParse(f *testing.F) {
	f.Add("west, region.example.com=eu")
	f.Add("a,,b=")
	f.Fuzz(func(t *testing.T, text string) {
		first, _, errs := Parse(listed(text), multicluster.ExportToAnnotation)
		if len(errs) > 0 {
			return
		}
		var terms []string
		for _, term := range first {
			terms = append(terms, term.String())
		}
		if len(first) == 0 || len(first) > MaxTerms {
			t.Fatalf("got %v", first)
		}
		second, _, errs := Parse(listed(strings.Join(terms, ",")), multicluster.ExportToAnnotation)
		if diff := cmp.Diff(first, second); diff != "" || len(errs) > 0 {
			t.Fatalf("not the same again: %s%v", diff, errs)
		}
		if audience := Audience(listed(text), "here", known); audience.Len() > clusterset.MaxAudience {
			t.Fatalf("got %d clusters", audience.Len())
		}
	})
}
