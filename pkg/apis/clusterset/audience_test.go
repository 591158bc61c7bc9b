// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import "testing"

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
