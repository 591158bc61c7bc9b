// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

package truncate

import (
	"runtime"
	"strings"
	"testing"
)

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

// Text of any length costs as much as the part of it that is shown.
func TestCharactersLooksAtWhatItShowsOnly(t *testing.T) {
	text := strings.Repeat("ä", 8<<20)
	for name, shorten := range map[string]func(string, int) string{"Characters": Characters, "Message": Message} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		shorten(text, 1000)
		runtime.ReadMemStats(&after)
		if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 64<<10 {
			t.Errorf("%s allocates %d bytes to show 1000 of %d characters", name, bytes, len(text)/2)
		}
	}
}

func TestMessageIsPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"one\ntwo":           "one two",
		"\x1b[2J\x00\u202ex": "\ufffd[2J\ufffd\ufffdx",
		"äöüß\n\n":           "äöü…",
		"\xff\xfe":           "\ufffd\ufffd",
	} {
		if got := Message(text, 4); got != Characters(want, 4) {
			t.Errorf("Message(%q) = %q, want %q", text, got, want)
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
