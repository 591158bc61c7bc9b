// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterpreference

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/apis/multicluster"
)

func annotated(tiers, minReady string) map[string]string {
	annotations := map[string]string{}
	for key, value := range map[string]string{multicluster.ClusterPreferenceAnnotation: tiers, multicluster.PreferenceMinReadyAnnotation: minReady} {
		if value != "-" {
			annotations[key] = value
		}
	}
	return annotations
}

// R600
func TestPreferenceIsParsed(t *testing.T) {
	for _, test := range []struct {
		tiers, minReady string
		want            *Preference
	}{
		{"-", "-", nil},
		{"-", "3", nil},
		{"cluster", "-", &Preference{[]Tier{Own}, 1}},
		{"cluster", "12", &Preference{[]Tier{Own}, 12}},
		{"property:region.example.com", "-", &Preference{[]Tier{"property:region.example.com"}, 1}},
		{" cluster , property:rack,property:region ", "2", &Preference{[]Tier{Own, "property:rack", "property:region"}, 2}},
		{"property:region,cluster", "-", &Preference{[]Tier{"property:region", Own}, 1}},
	} {
		t.Run(test.tiers+" "+test.minReady, func(t *testing.T) {
			got, errs := Parse(annotated(test.tiers, test.minReady))
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// R608: what an import shows is read, also what a newer release exports.
func TestPreferenceOfAnImportIsRead(t *testing.T) {
	for _, test := range []struct {
		tiers, minReady string
		want            *Preference
	}{
		{"-", "2", nil},
		{"", "-", nil},
		{"cluster,property:region", "2", &Preference{[]Tier{Own, "property:region"}, 2}},
		{"latency,cluster", "-", &Preference{[]Tier{"latency", Own}, 1}},
		{"cluster", "many", &Preference{[]Tier{Own}, 1}},
	} {
		if diff := cmp.Diff(test.want, OfImport(annotated(test.tiers, test.minReady))); diff != "" {
			t.Errorf("%s %s: %s", test.tiers, test.minReady, diff)
		}
	}
}

// R601: a refused preference is refused with what to write instead.
func TestInvalidPreferenceIsRefused(t *testing.T) {
	many := "cluster"
	for i := range MaxTiers {
		many += fmt.Sprintf(",property:p%d", i)
	}
	for _, test := range []struct {
		name, tiers, minReady string
		want                  []string // one per error
	}{
		{"empty", "", "-", []string{"has no tiers; write cluster for the cluster of the client, property:NAME"}},
		{"blank", "  ", "-", []string{"has no tiers"}},
		{"empty tier", "cluster,", "-", []string{"has an empty tier; remove the superfluous comma"}},
		{"unknown tier", "zone", "-", []string{`tier "zone" is unknown; write cluster for the cluster of the client, property:NAME`}},
		{"ID of a cluster", "east", "-", []string{`tier "east" is unknown; write cluster for the cluster of the client, property:NAME for those with the same value of a ClusterProperty, or several of them separated by commas; clusters cannot be named by their ID`}},
		{"other separators", "cluster;property:region", "-", []string{"separated by commas"}},
		{"value", "property:region.example.com=eu", "-", []string{`values are not given, because those of "region.example.com" are compared with that of the cluster of the client; remove "=eu"`}},
		{"label of nodes", "property:topology.kubernetes.io/region", "-", []string{`labels of nodes are not compared; for the cluster of the client write cluster, otherwise name a ClusterProperty in your own domain`}},
		{"upper case", "Cluster", "-", []string{`tier "Cluster" is unknown`}},
		{"all", "cluster,all", "-", []string{`tier "all" follows the last one anyway; remove it`}},
		{"property without name", "property:", "-", []string{`tier "property:" has no name; add that of a ClusterProperty`}},
		{"property with an invalid name", "property:Region", "-", []string{`"Region" cannot be the name of a ClusterProperty`}},
		{"property that is reserved", "property:id.k8s.io", "-", []string{`properties in the domain k8s.io are not compared; for the cluster of the client write cluster`}},
		{"cluster twice", "cluster,cluster", "-", []string{`has tier "cluster" more than once; remove all but the first`}},
		{"property twice", "property:a,cluster,property:a", "-", []string{`has tier "property:a" more than once`}},
		{"too many", many, "-", []string{"has 9 tiers, and may have 8; remove some"}},
		{"too long", strings.Repeat("x", maxText+1), "-", []string{"may not be more than"}},
		{"zero", "cluster", "0", []string{"must be a positive integer, such as 2"}},
		{"negative", "cluster", "-1", []string{"must be a positive integer"}},
		{"sign", "cluster", "+1", []string{"must be a positive integer"}},
		{"no number", "cluster", "all", []string{"must be a positive integer"}},
		{"too large", "cluster", "2147483648", []string{"must be a positive integer"}},
		{"no number and no tiers", "-", "", []string{"must be a positive integer"}},
		{"everything", "zone,,cluster", "x", []string{`tier "zone" is unknown`, "empty tier", "must be a positive integer"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, errs := Parse(annotated(test.tiers, test.minReady))
			if got != nil || len(errs) != len(test.want) {
				t.Fatalf("got %v and errors %v, want %d errors", got, errs, len(test.want))
			}
			for i, want := range test.want {
				if !strings.Contains(errs[i].Error(), want) {
					t.Errorf("error %q does not contain %q", errs[i], want)
				}
			}
		})
	}
}

// What is parsed is within the limits, is known, and is the same when it is written and parsed again.
func FuzzParse(f *testing.F) {
	f.Add("cluster, property:region.example.com", "2")
	f.Add("property:a,,all", "0")
	f.Fuzz(func(t *testing.T, tiers, minReady string) {
		first, errs := Parse(annotated(tiers, minReady))
		if first == nil {
			return
		}
		if len(errs) > 0 || len(first.Tiers) == 0 || len(first.Tiers) > MaxTiers || first.MinReady < 1 {
			t.Fatalf("got %v with errors %v", first, errs)
		}
		for _, tier := range first.Tiers {
			if tier.problem() != "" || len(tier) > MaxTierLength || tier == All {
				t.Fatalf("got tier %q", tier)
			}
		}
		second, errs := Parse(annotated(first.String(), fmt.Sprint(first.MinReady)))
		if diff := cmp.Diff(first, second); diff != "" || len(errs) > 0 {
			t.Fatalf("not the same again: %s%v", diff, errs)
		}
	})
}
