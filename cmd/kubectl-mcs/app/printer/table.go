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
			cells = append(cells, cmp.Or(Escape(cell), "-"))
		}
		if _, err := fmt.Fprintln(writer, indent+strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return writer.Flush()
}

// Age formats the time since then. Times in the future count as now, because clocks
// of other machines may be ahead.
func Age(now, then time.Time) string {
	return duration.HumanDuration(max(0, now.Sub(then)))
}
