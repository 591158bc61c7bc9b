// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package truncate

import "testing"

func TestCharactersEndsLongTextWithAnEllipsis(t *testing.T) {
	for _, test := range []struct {
		text string
		max  int
		want string
	}{
		{"", 3, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "ab…"},
		{"äöü", 3, "äöü"},
		{"äöüß", 3, "äö…"},
	} {
		if got := Characters(test.text, test.max); got != test.want {
			t.Errorf("Characters(%q, %d) = %q, want %q", test.text, test.max, got, test.want)
		}
	}
}

func TestBytesNeverSplitsACharacter(t *testing.T) {
	for _, test := range []struct {
		text string
		max  int
		want string
	}{
		{"", 3, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc"},
		{"aäö", 3, "aä"},
		{"äöü", 3, "ä"},
	} {
		if got := Bytes(test.text, test.max); got != test.want {
			t.Errorf("Bytes(%q, %d) = %q, want %q", test.text, test.max, got, test.want)
		}
	}
}
