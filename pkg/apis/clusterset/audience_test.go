// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// R620: an export without an audience is for all clusters, and one with an empty audience for none.
func TestAudienceIncludesItsClusters(t *testing.T) {
	for _, test := range []struct {
		name     string
		audience *Audience
		want     bool
	}{
		{"none", nil, true},
		{"empty", NewAudience(), false},
		{"others", NewAudience("north"), false},
		{"longer and shorter", NewAudience("west-1", "wes", "2-west"), false},
		{"among others", NewAudience("west", "north", "west"), true},
	} {
		if got := test.audience.Includes("west"); got != test.want {
			t.Errorf("%s: includes west: %t", test.name, got)
		}
	}
	if !NewAudience("b", "a").Same(NewAudience("a", "b", "a")) || NewAudience().Same(nil) || (*Audience)(nil).Same(NewAudience("a")) || !(*Audience)(nil).Same(nil) {
		t.Error("audiences are not compared")
	}
}

// Each of many clusters is found, whatever the length of the IDs around it, and no other.
func TestAudienceFindsEachCluster(t *testing.T) {
	var members, others []string
	for i := range 200 {
		id := fmt.Sprintf("%s%d", strings.Repeat(string(rune('a'+i%26)), 1+i*7%60), i)
		if i%2 == 0 {
			members = append(members, id)
		} else {
			others = append(others, id)
		}
	}
	for count := range members {
		audience := NewAudience(members[:count]...)
		for i, id := range members {
			if audience.Includes(id) != (i < count) {
				t.Fatalf("%s belongs to %q: %t", id, audience.Joined, i >= count)
			}
		}
		if found := slices.IndexFunc(append(others, "", "a", "zz", ","), audience.Includes); found >= 0 {
			t.Fatalf("another cluster, number %d, belongs to %q", found, audience.Joined)
		}
	}
}

// An audience is one text, from which its clusters can be read.
func TestAudienceListsItsClusters(t *testing.T) {
	for _, clusters := range [][]string{nil, {"a"}, {"a", "b"}, {"b", "a"}, {""}, {"a", ""}} {
		if got := JoinAudience(clusters); !slices.Equal(got.Clusters(), clusters) || got.Len() != len(clusters) {
			t.Errorf("%q became %d clusters: %q", clusters, got.Len(), got.Clusters())
		}
	}
	if none := (*Audience)(nil); none.Len() != 0 || none.Clusters() != nil {
		t.Errorf("no audience has clusters: %q", none.Clusters())
	}
}

func TestIntersectionOfAudiences(t *testing.T) {
	for _, test := range []struct{ one, other, want *Audience }{
		{nil, nil, nil},
		{nil, NewAudience("a"), NewAudience("a")},
		{NewAudience("a", "b", "c"), NewAudience("b", "c", "d"), NewAudience("b", "c")},
		{NewAudience("a"), NewAudience("a"), NewAudience("a")},
		{NewAudience("a"), NewAudience("b"), NewAudience()},
		{NewAudience("a"), NewAudience(), NewAudience()},
	} {
		if one, other := test.one.Intersection(test.other), test.other.Intersection(test.one); !one.Same(test.want) || !other.Same(test.want) {
			t.Errorf("%v and %v: got %v and %v", test.one, test.other, one, other)
		}
	}
}
