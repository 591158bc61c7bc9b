// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package truncate shortens text that is shown to people or stored in objects
// with a size limit.
package truncate

import "strings"

// Characters returns text if it has at most max characters. Otherwise it
// returns the first max-1 characters and an ellipsis.
func Characters(text string, max int) string {
	if len(text) <= max { // no text has more characters than bytes
		return text
	}
	if runes := []rune(text); len(runes) > max {
		return string(runes[:max-1]) + "…"
	}
	return text
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
