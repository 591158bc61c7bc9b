// Copyright The mcs-apiserver Authors.
// SPDX-License-Identifier: Apache-2.0

// Package printer prints tables, JSON and YAML.
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

// WriteTable writes rows with aligned columns and an indentation. The first row has
// the column titles. Empty cells are shown as a dash.
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

// Printable replaces line breaks and control characters by spaces. Text from other
// clusters must not be able to control the terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// Age formats the time since then. Times in the future count as now, because clocks
// of other machines may be ahead.
func Age(now, then time.Time) string {
	return duration.HumanDuration(max(0, now.Sub(then)))
}
