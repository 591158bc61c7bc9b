// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package marker

import (
	"strings"
	"testing"
)

const here, elsewhere = "here", "elsewhere"

func TestStorageIsUsedOnlyIfItIsNewOrTheOneUsedBefore(t *testing.T) {
	own := &Marker{StorageID: "s1", ClusterUID: here, Type: "cluster"}
	stored := &Marker{StorageID: "s1", ClusterUID: here}
	embedded := &Marker{StorageID: "s1", ClusterUID: here, Type: "embedded"}
	for what, c := range map[string]struct {
		observed Observed
		// refused is part of the error; empty if the storage is used.
		refused string
		// stored and copied are what is written, also if an administrator accepts it.
		stored, copied string
	}{
		"first start":                          {Observed{Empty: true}, "", "new", "new"},
		"used before":                          {Observed{Stored: stored, Copy: own}, "", "", ""},
		"used before, copy never written":      {Observed{Stored: stored}, "", "", "s1"},
		"used before, copy without type":       {Observed{Stored: stored, Copy: stored}, "", "", "s1"},
		"of a release without markers":         {Observed{Traces: []string{"Service shop/derived-x"}}, "", "new", "new"},
		"lost":                                 {Observed{Copy: own, Empty: true}, "storage s1 was lost", "new", "new"},
		"lost and partly filled again":         {Observed{Copy: own}, "storage s1 was lost", "new", "new"},
		"another --storage":                    {Observed{Copy: embedded, Empty: true}, "stored its objects with --storage=embedded until now", "new", "new"},
		"lost, or another --storage":           {Observed{Copy: stored, Empty: true}, "was lost, or is another one", "new", "new"},
		"lost with its copy, restored in part": {Observed{Traces: []string{"Service shop/derived-x"}, AlwaysMarked: true}, "it has objects but no marker", "new", "new"},
		"new, restored in part":                {Observed{AlwaysMarked: true}, "it has objects but no marker", "new", "new"},
		"first start with ConfigMaps":          {Observed{Empty: true, AlwaysMarked: true}, "", "new", "new"},
		"lost with its copy":                   {Observed{Empty: true, Traces: []string{"Service shop/derived-x"}}, "shop/derived-x", "new", "new"},
		"of another cluster":                   {Observed{Stored: &Marker{StorageID: "s1", ClusterUID: elsewhere}, Copy: own}, "another cluster", "s1", ""},
		"of another cluster, first start":      {Observed{Stored: &Marker{StorageID: "s1", ClusterUID: elsewhere}}, "another cluster", "s1", "s1"},
		"everything restored in another one":   {Observed{Stored: &Marker{StorageID: "s1", ClusterUID: elsewhere}, Copy: &Marker{StorageID: "s1", ClusterUID: elsewhere}}, "another cluster", "s1", "s1"},
		"installation restored in another one": {Observed{Copy: &Marker{StorageID: "s1", ClusterUID: elsewhere}, Empty: true}, "", "new", "new"},
		"lost, copy of another one restored":   {Observed{Copy: &Marker{StorageID: "s1", ClusterUID: elsewhere}, Empty: true, Traces: []string{"Service shop/derived-x"}}, "shop/derived-x", "new", "new"},
		"moved to another storage":             {Observed{Stored: &Marker{StorageID: "s1", ClusterUID: here, MovedTo: "etcd"}, Copy: own}, "outdated: its objects were moved to etcd", "s1", ""},
		"not yet complete":                     {Observed{Stored: &Marker{StorageID: "s1", ClusterUID: here, MovingFrom: "etcd"}, Copy: own}, "incomplete: moving objects from etcd was interrupted", "s1", ""},
		"switched without copying":             {Observed{Stored: &Marker{StorageID: "s2", ClusterUID: here}, Copy: own}, "is not the storage s1", "", "s2"},
	} {
		c.observed.ClusterUID, c.observed.Type = here, "cluster"
		decision, err := Evaluate(c.observed, "new", false)
		if (err == nil) != (c.refused == "") || err != nil && (!IsLost(err) || !strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), acceptFlag)) {
			t.Errorf("%s: got %v, want %q and the remedy", what, err, c.refused)
		}
		if err != nil {
			if decision != (Decision{}) {
				t.Errorf("%s: refused, but would write %+v", what, decision)
			}
			if decision, err = Evaluate(c.observed, "new", true); err != nil {
				t.Errorf("%s: accepted: %v", what, err)
			}
		}
		for which, written := range map[string]struct {
			marker *Marker
			want   string
		}{"storage": {decision.WriteStored, c.stored}, "copy": {decision.WriteCopy, c.copied}} {
			switch {
			case written.want == "" && written.marker != nil, written.want != "" && written.marker == nil:
				t.Errorf("%s: writes %+v to the %s, want %q", what, written.marker, which, written.want)
			case written.marker != nil && (written.marker.StorageID != written.want || written.marker.ClusterUID != here):
				t.Errorf("%s: writes %+v to the %s, want %q", what, written.marker, which, written.want)
			}
		}
	}
}

// Objects on a volume are not lost because artifacts/default was applied.
func TestStorageOfAnotherTypeIsNotCalledLost(t *testing.T) {
	for copied, want := range map[string]string{
		"embedded": "apply the manifests with --storage=embedded again, or move the objects by restarting mcs-apiserver with --migrate-from=embedded",
		"":         "the default of earlier versions was --storage=embedded",
	} {
		_, err := Evaluate(Observed{Copy: &Marker{StorageID: "s1", ClusterUID: here, Type: copied}, Empty: true, Type: "cluster", ClusterUID: here}, "new", false)
		if err == nil || !strings.Contains(err.Error(), want) || copied != "" && strings.Contains(err.Error(), "restore") {
			t.Errorf("%q: got %v, want %q", copied, err, want)
		}
	}
}
