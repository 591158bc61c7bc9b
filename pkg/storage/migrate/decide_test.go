// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcs-apiserver/mcs-apiserver/pkg/storage/marker"
)

// R175 to R177
func TestDecide(t *testing.T) {
	const here, there = "here", "there"
	normal := func(id string) *marker.Marker { return &marker.Marker{StorageID: id, ClusterUID: here} }
	moved := func(id string) *marker.Marker {
		return &marker.Marker{StorageID: id, ClusterUID: here, MovedTo: "elsewhere"}
	}
	movingFrom := func(id, from string) *marker.Marker {
		return &marker.Marker{StorageID: id, ClusterUID: here, MovingFrom: from}
	}
	moving := func(id string) *marker.Marker { return movingFrom(id, "the source") }
	filled := func(marker *marker.Marker) side { return side{marker: marker} }
	empty := side{empty: true}
	for name, test := range map[string]struct {
		source, target side
		copied         *marker.Marker
		// id is the storage ID after copying; empty if nothing is copied.
		id, err string
	}{
		"first move":                                {source: filled(normal("a")), target: empty, copied: normal("a"), id: "a"},
		"source of a release without markers":       {source: filled(nil), target: empty, id: "new"},
		"source with a marker but without objects":  {source: side{marker: normal("a"), empty: true}, target: empty, copied: normal("a"), id: "a"},
		"interrupted before the source is outdated": {source: filled(normal("a")), target: filled(moving("a")), copied: normal("a"), id: "a"},
		"interrupted after the source is outdated":  {source: filled(moved("a")), target: filled(moving("a")), copied: normal("a"), id: "a"},
		"interrupted, source without marker":        {source: filled(nil), target: filled(moving("b")), id: "b"},
		"already moved":                             {source: filled(moved("a")), target: filled(normal("a")), copied: normal("a")},
		"already moved, source deleted":             {source: empty, target: filled(normal("a")), copied: normal("a")},
		"back to the storage before":                {source: filled(normal("a")), target: filled(moved("a")), copied: normal("a"), id: "a"},
		"copy of another cluster":                   {source: filled(normal("a")), target: empty, copied: &marker.Marker{StorageID: "x", ClusterUID: there}, id: "a"},

		"nothing to move":                              {source: empty, target: empty, err: "nothing to move"},
		"source of another cluster":                    {source: filled(&marker.Marker{StorageID: "a", ClusterUID: there}), target: empty, err: "another cluster"},
		"source that is not in use":                    {source: filled(normal("a")), target: empty, copied: normal("b"), err: "not the storage that this cluster used last"},
		"source without marker that is not in use":     {source: filled(nil), target: empty, copied: normal("b"), err: "not the storage that this cluster used last"},
		"source that was moved":                        {source: filled(moved("a")), target: empty, copied: normal("a"), err: "move from there"},
		"source that is incomplete":                    {source: filled(moving("a")), target: empty, err: "complete that first"},
		"target in use":                                {source: filled(normal("a")), target: filled(normal("b")), err: "in use already"},
		"target in use, source without marker":         {source: filled(nil), target: filled(normal("b")), copied: normal("b"), err: "in use already"},
		"source accepted again after it was moved":     {source: filled(normal("a")), target: filled(normal("a")), copied: normal("a"), err: "in use already"},
		"target with unknown objects":                  {source: filled(normal("a")), target: filled(nil), copied: normal("a"), err: "were not moved there"},
		"target with a part of another storage":        {source: filled(normal("a")), target: filled(moving("b")), copied: normal("a"), err: "already holds a part"},
		"interrupted, source lost":                     {source: empty, target: filled(moving("a")), copied: normal("a"), err: "was lost since"},
		"interrupted, another source":                  {source: filled(normal("a")), target: filled(movingFrom("a", "a third")), copied: normal("a"), err: "objects of a third, not of the source"},
		"target that was moved to a third storage":     {source: filled(moved("a")), target: filled(moved("a")), copied: normal("a"), err: "move from there"},
		"target that was moved, and another source":    {source: filled(normal("b")), target: filled(moved("a")), copied: normal("b"), err: "move from there"},
		"target that was moved, source without marker": {source: filled(nil), target: filled(moved("a")), err: "move from there"},
	} {
		test.source.name, test.target.name = "the source", "the target"
		got, err := decide(observed{source: test.source, target: test.target, copied: test.copied, clusterUID: here}, "new")
		switch {
		case test.err != "" && (!IsRefused(err) || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%s: got %v, %v, want an error with %q", name, got, err, test.err)
		case test.err == "" && (err != nil || got.copy != (test.id != "") || got.storageID != test.id):
			t.Errorf("%s: got %+v, %v, want ID %q", name, got, err, test.id)
		}
	}
}

func TestDifference(t *testing.T) {
	put, remove := difference(
		map[string][]byte{"same": []byte("1"), "changed": []byte("2"), "added": []byte("3"), "empty": {}},
		map[string][]byte{"same": []byte("1"), "changed": []byte("1"), "removed": []byte("4")},
	)
	slices.Sort(put)
	if got := strings.Join(put, " "); got != "added changed empty" {
		t.Errorf("puts %s", got)
	}
	if got := strings.Join(remove, " "); got != "removed" {
		t.Errorf("removes %s", got)
	}
}
