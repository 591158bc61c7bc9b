// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package printer writes tables, JSON and YAML.
package printer

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
)

// WriteTable writes rows in columns that are aligned, each behind an indent.
// The first row are the titles. An empty cell is a dash.
func WriteTable(out io.Writer, indent string, rows [][]string) error {
	writer := printers.GetNewTabWriter(out)
	for _, row := range rows {
		cells := make([]string, 0, len(row))
		for _, cell := range row {
			cells = append(cells, cmp.Or(Printable(cell), "-"))
		}
		if _, err := fmt.Fprintln(writer, indent+strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return writer.Flush()
}

// Printable is a text on one line and without control characters: much of what
// is printed is what other clusters say, and a terminal obeys some of them.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// Age is how long ago something was, for people. Clocks of other machines may
// be ahead.
func Age(now, then time.Time) string {
	return duration.HumanDuration(max(0, now.Sub(then)))
}
