// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package truncate shortens text that is shown to people or stored in objects
// with a size limit.
package truncate

import (
	"strings"
	"unicode"
)

// MaxEventNote is the maximum length of an Event's note in bytes.
const MaxEventNote = 1024

// Characters returns text if it has at most max characters. Otherwise it
// returns the first max-1 characters and an ellipsis. It does not look at what
// follows, however long that is.
func Characters(text string, max int) string {
	count, end := 0, 0
	for at := range text {
		switch count {
		case max - 1:
			end = at
		case max:
			return text[:end] + "…"
		}
		count++
	}
	return text
}

// Message returns at most max characters of text that comes from other clusters, and
// replaces those that are not printable: it is shown on terminals.
func Message(text string, max int) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, Characters(text, max))
}

// Bytes returns at most max bytes of text and never splits a character. A split
// character would be replaced when the text is encoded, so that a controller
// that compares the stored text with its own would write it again and again.
func Bytes(text string, max int) string {
	if len(text) <= max {
		return text
	}
	return strings.ToValidUTF8(text[:max], "")
}
