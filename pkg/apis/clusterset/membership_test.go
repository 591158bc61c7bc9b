// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterset

import (
	"slices"
	"testing"
)

// R298: kubectl and the server read the lists in Secrets and claims alike.
func TestListsAreSplitAtCommasAndWhiteSpace(t *testing.T) {
	for list, want := range map[string][]string{
		"":                                nil,
		" ,\n":                            nil,
		"243.1.0.0/16":                    {"243.1.0.0/16"},
		"a,b c\td\r\ne\n":                 {"a", "b", "c", "d", "e"},
		"243.1.0.0/16, fd00:243::1:0/112": {"243.1.0.0/16", "fd00:243::1:0/112"},
	} {
		if got := SplitList(list); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", list, got, want)
		}
	}
}
